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
## Left out, and fitted again

Time: the constants that a family says most about, fitted again without it from other starting
values, on the families nearest to it (2026-11-29). Mean and median absolute error, per cent.

| rows | with it | without it |
|---|---|---|
| megatron_papers | 2.2 / 1.4 | 2.7 / 1.6 |
| simumax_b200 | 4.2 / 4.4 | dense 4.2 / 4.7, experts 5.0 / 6.2 |
| vtrain_multi | 5.4 / 2.6 | 6.4 / 2.7 |
| vtrain_single | 7.4 / 4.4 | 9.1 / 8.4 |
| llm_foundry | 4.2 / 2.8 | 4.9 / 3.1 |
| nvidia_dgxc, dense | 4.7 / 3.7 | 5.0 / 4.6 |
| torchtitan | 10.7 / 8.4 | 11.0 / 11.6 |
| megatron_bridge_perf, dense | 5.4 / 3.1 | 15.4 / 16.2 |

Structure and habits were chosen with all rows in view. Without its own rows Megatron-Bridge
(GB200, GB300) is 15 % off: rows of an older stack on GB200 then decide the energy of an FP8
FLOP on Blackwell, and that stack is slower. Memory has no fitted constants but the shares of
the allocator; habits that were deduced from rows are marked so where they stand.

## Kernels

| what | rows | median error |
|---|---|---|
| products in bf16, seven constants a device | H100, H200, B200, GB200 | 3.9, 3.4, 5.0, 6.0 |
| the same, constants shared by all devices | H100, H200, B200, GB200 | 6.1, 4.6, 6.4, 7.2 |
| decode attention | H100, H200, B200, L40S | 7.7 |
| collectives from 1 MiB, one node | A100, H100, H200, B200 | 7.3 |

## What stays off: memory

* **Reserved memory** is replayed through a model of the caching allocator for nanotron alone;
  its pace and its waits were chosen with these rows in view. What is left there are groups of
  16 and 32 ranks across nodes with large micro-batches, where the replayed host runs too far
  ahead. For every other stack reserved and device memory are allocated memory plus a share.
* **Megatron with experts**: the imbalance of real routing is not an input of these rows.
* **Megatron-Bridge's cards** in FP8: 7 to 10 % off either way; the cards do not say which rank
  they mean.
* **Ascend**: hybrid context parallelism (one row, -48 %) and a loss without an fp32 copy (+10 %).
* **torchao**: 7 to 8 % high or low in device memory, by what its streams leave unused.
* **nanotron** with eight pipeline stages: 6 % low on average, more with larger tensor groups.
* CUDA graphs, Muon, Megatron-FSDP and offload by module are known in bounds: their rows have a
  range that names them.

## What stays off: time

- **Experts.** Steps of one recipe differ by a third between two releases of a container; which
  kernels permute, group and exchange is not in a row. DeepSeek-V3 on GB200 under NeMo of 2025
  (three rows, −61 %) and GPT-OSS (−20 to −35 %) are the worst.
- **Context parallelism in torchtitan**, four ranks and more: −20 %. Its ring is not balanced as
  the model takes it to be, or its attention is slower in pieces.
- **torchtitan on A100**: −11 %; the rows do not say what network they had.
- **FP8 on GB200 under NeMo of 2025**: −10 to −17 %, where later containers are right.
- **vTrain**: three rows (tensor parallel 4 and 8) break their own series by 30 to 50 %; the layer
  profiles of the one-node rows do not grow with the batch.
- **nanotron**: single iterations; a tenth of the rows are two to ten times as slow as their
  neighbours. One sweep had two environments, of which only pipelined runs on several nodes are
  told apart blindly; [how to score](how-to/score.md) says what regret that leaves. With
  ``--measured-network``, which takes the all-gather that each job timed of itself as an input, the
  median is 4.5 %, the 90th percentile 17.6 %, and the mean regret 5.2 %; 2.0 % among plans of one
  environment (2026-11-30). Groups of 32 ranks on 512 devices take 0.4 to 0.6 s a step more than
  is predicted, whatever the batch.
- Links over PCIe are not fitted.
- **Small models** (Megatron's functional tests, most fine-tuning on one GPU): host time,
  latency and padding; their rows are for memory.
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
