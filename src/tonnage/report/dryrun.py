"""A dry run on a terminal: its peak, what is saved by whom, and the ledger beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tonnage.quantity import format_bytes, format_flops
from tonnage.report.layout import bar_rows, bullets, console, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.pytorch import Comparison, DryRun, Trace
    from tonnage.pytorch.trace import Phase

MOST_MODULES = 12
"""Rows of the table of modules."""


COUNTED: tuple[Phase, ...] = ("forward", "backward", "recompute")
"""Parts of the step that multiply matrices."""


def print_dry_run(run: DryRun, rows: Sequence[Comparison], screen: Console | None = None) -> None:
    """Print a dry run beside the ledger.

    Args:
        run: the dry run.
        rows: its figures beside the ledger's.
        screen: where; None: stdout.
    """
    screen = screen or console()
    print_trace(run.trace, title=run.architecture.name, screen=screen)
    heading(screen, "Beside the ledger", "bytes and FLOPs of one rank's step")
    cells = [
        (
            f"{row.name}, {row.unit}",
            f"{row.dry_run:,}",
            f"{row.ledger:,}",
            "equal" if row.difference == 0 else f"{row.difference / max(row.dry_run, 1):+.2%}",
        )
        for row in rows
    ]
    listing(
        screen,
        (("", "left"), ("dry run", "right"), ("ledger", "right"), ("", "right")),
        cells,
    )
    heading(screen, "Assumed")
    bullets(screen, (*run.resolved.assumptions, *run.assumptions))


def print_trace(trace: Trace, *, title: str, screen: Console | None = None) -> None:
    """Print what was recorded, without a ledger: somebody's own code has none."""
    screen = screen or console()
    peak = trace.peak
    heading(screen, title, f"peak {format_bytes(peak.bytes)} in {peak.phase}")
    sizes = [(name, float(size), format_bytes(size)) for name, size in peak.categories.items()]
    bar_rows(screen, sizes, whole=peak.bytes or 1, style="cyan")
    heading(screen, "Peak of each part of the step")
    moments = [trace.peak_of(phase) for phase in trace.phases_seen]
    facts(screen, [(str(m.phase), format_bytes(m.bytes), "") for m in moments if m is not None])
    heading(screen, "Saved for backward, by the module that keeps it")
    largest = Counter(trace.saved_by()).most_common(MOST_MODULES)
    facts(screen, [(name or "outside", format_bytes(size), "") for name, size in largest])
    heading(screen, "FLOPs")
    facts(
        screen,
        [
            (p, format_flops(trace.total_flops([p])), "")
            for p in ("forward", "backward", "recompute")
        ],
    )
    if trace.notes:
        heading(screen, "Assumed of values")
        bullets(screen, trace.notes)
