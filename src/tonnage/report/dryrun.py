"""A dry run on a terminal: its peak, what is saved by whom, and the ledger beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tonnage.quantity import format_bytes, format_flops
from tonnage.report.layout import bar_rows, bullets, console, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.pytorch import Comparison, DryRun, LayoutCopy, Trace

MOST_MODULES = 12
"""Rows of the table of modules."""


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
    from tonnage.pytorch.replay import alive_at_peak, replay

    screen = screen or console()
    peak, held = trace.peak, replay(trace)
    found = f"peak {format_bytes(peak.bytes)} in {peak.phase}"
    heading(screen, title, f"{found}, reserved {format_bytes(held.reserved)}")
    sizes = [(name, float(size), format_bytes(size)) for name, size in peak.categories.items()]
    bar_rows(screen, sizes, whole=peak.bytes or 1, style="cyan")
    alive = alive_at_peak(trace)
    heading(screen, "Peak of each part of the step")
    moments = [trace.peak_of(phase) for phase in trace.phases_seen]
    facts(screen, [(str(m.phase), format_bytes(m.bytes), "") for m in moments if m is not None])
    heading(screen, "Alive at the peak")
    several = [(f"{a.count:,} tensors" if a.count > 1 else "", a) for a in alive]
    facts(screen, [(a.name, format_bytes(a.bytes), count) for count, a in several])
    heading(screen, "Saved for backward, by the module that keeps it")
    kept = sorted(trace.saved_by_kind().items(), key=lambda item: -item[1][1])[:MOST_MODULES]
    facts(
        screen,
        [(n or "outside", format_bytes(s), f"{c} modules" if c > 1 else "") for n, (c, s) in kept],
    )
    heading(screen, "FLOPs")
    facts(
        screen,
        [
            (p, format_flops(trace.total_flops([p])), "")
            for p in ("forward", "backward", "recompute")
        ],
    )
    _print_collectives(trace, screen)
    if trace.notes:
        heading(screen, "Assumed of values")
        bullets(screen, trace.notes)


def _print_collectives(trace: Trace, screen: Console) -> None:
    if not trace.collectives:
        return
    heading(screen, "Collectives", "full tensors, of one rank's step")
    cells = [
        (f"{kind}, {phase}", f"{group:,}", f"{calls:,}", format_bytes(size))
        for (kind, group, phase), (calls, size) in sorted(trace.sent.items())
    ]
    listing(
        screen, (("", "left"), ("ranks", "right"), ("calls", "right"), ("bytes", "right")), cells
    )


def print_layout_copies(copies: Sequence[LayoutCopy], screen: Console | None = None) -> None:
    """Print what was copied to change layouts in one step, by operation and module."""
    screen = screen or console()
    whole = format_bytes(sum(copy.bytes for copy in copies))
    heading(screen, "Copied to change layout", f"{len(copies)} tensors, {whole} a step")
    sizes = Counter[tuple[str, str, str]]()
    for copy in copies:
        sizes[copy.operator, copy.module, copy.layout] += copy.bytes
    facts(
        screen,
        [
            (f"{operator} of {module or 'backward'}", format_bytes(size), f"to {layout}")
            for (operator, module, layout), size in sizes.most_common(MOST_MODULES)
        ],
    )
