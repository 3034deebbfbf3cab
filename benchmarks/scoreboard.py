"""The scoreboard page, from measured rows.

Run by hand: ``python benchmarks/scoreboard.py ROWS.csv … > docs/scoreboard.md``.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tonnage.score import Board, Scoreboard, read_rows, score, scoreboard
from tonnage.score.metrics import Errors
from tonnage.version import __version__

HEAD = """# Scoreboard

Predicted beside measured, over published runs of other people: errors of memory and of step
time by family of rows, whether runs fit, and whether the fastest plan is ranked first. The
rows themselves are not part of the project; [how to score](how-to/score.md) gives their
format, so that the same command can be run over any others.

```sh
python benchmarks/scoreboard.py ROWS.csv … > docs/scoreboard.md
```

An error is predicted over measured, less 1; a refused row counts as 100 %. *Low* is the share
predicted more than 5 % too low, *in range* the share measured inside the range that an
estimate gives. Some constants were fitted to rows of these families, and some habits deduced
from them (the pages of the derivations say which): rows of other sources are the real test.
"""

TAIL = """
## What is off, and why

* **Reserved and device memory** are allocated memory plus a share. What full-width blocks that
  wait for a collective add, which grows with tensor parallelism, is not in it: most of the
  error of the nanotron rows.
* **Megatron with experts**: plain activations keep their output twice with probabilities
  applied inside the experts, and the imbalance of real routing is not an input of these rows.
* **Small models** (Megatron's functional tests): their steps are host time and latency, and
  are for memory only.
* **Ascend**: habits of MindSpeed are not modelled yet; its rows are refused by name.
* **Multi-token prediction, offload by module, Megatron-FSDP's memory** are refused by name.
* **Fine-tuning with padding** (Qwen): speed is of whole padded sequences with small batches.
"""


def percent(figure: float | None, *, signed: bool = False) -> str:
    """A share as a table shows it."""
    return "–" if figure is None else f"{figure:{'+' if signed else ''}.1%}"


def error_table(title: str, rows: dict[str, Errors]) -> Iterable[str]:
    """Errors by family."""
    yield f"\n## {title}\n"
    yield "| rows | n | answered | median | mean | 90 % | bias | low | in range |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, e in rows.items():
        if e.eligible:
            cells = [e.coverage, e.median_abs_error, e.mean_abs_error, e.p90_abs_error]
            tail = [percent(e.bias, signed=True), percent(e.share_under_by_5pct)]
            row = [name, str(e.eligible), *map(percent, cells), *tail, percent(e.share_in_range)]
            yield f"| {' | '.join(row)} |"


def decisions(parts: dict[str, Board]) -> Iterable[str]:
    """Fits and choice by family."""
    yield "\n## Fits, and choice of plan\n"
    yield "| rows | ok, oom | balanced accuracy | jobs | mean regret | median | pairs in order |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, part in parts.items():
        fit, choice = part.fit, part.choice
        if fit.balanced_accuracy is None and not choice.groups:
            continue
        figures = [choice.mean_regret, choice.median_regret, choice.pairwise_order]
        told = f"{fit.ok}, {fit.oom}"
        row = [name, told, percent(fit.balanced_accuracy), str(choice.groups)]
        yield f"| {' | '.join([*row, *map(percent, figures)])} |"


def page(board: Scoreboard) -> str:
    """The page as Markdown."""
    parts = {**dict(sorted(board.families.items())), "**all rows**": board.pooled}
    today = datetime.now(UTC).date()
    lines = [
        HEAD,
        f"Tonnage {__version__}, Python {platform.python_version()}, {today}.",
        *error_table("Peak memory", {name: part.memory for name, part in parts.items()}),
        *error_table("Time of a step", {name: part.time for name, part in parts.items()}),
        *decisions(parts),
        TAIL,
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Score the files that are named."""
    rows = [row for name in sys.argv[1:] for row in read_rows(Path(name))]
    print(page(scoreboard(score(rows))), end="")


if __name__ == "__main__":
    main()
