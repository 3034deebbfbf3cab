"""Scaling tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_count, format_percent, format_seconds
from tonnage.report.layout import (
    Justify,
    bullets,
    console,
    heading,
    listing,
    print_block,
)
from tonnage.report.memory import gib

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.search.scaling import ScalePoint

_COLUMNS: tuple[tuple[str, Justify], ...] = (
    ("GPUs", "right"),
    ("gbs", "right"),
    ("step", "right"),
    ("tokens/s", "right"),
    ("per GPU", "right"),
    ("MFU", "right"),
    ("GiB", "right"),
    ("", "left"),
    ("efficiency", "right"),
)


def print_scaling(
    points: Sequence[ScalePoint], *, weak: bool, screen: Console | None = None
) -> None:
    """One row a cluster; then why a plan cannot run, where it cannot.

    Args:
        points: the first is what efficiencies are over.
        weak: whether the global batch grows.
        screen: where; None: stdout.
    """
    screen = screen or console()
    kind = "weak: the global batch grows" if weak else "strong: the global batch stays"
    answer = points[0].answer
    assert answer is not None
    devices = ", ".join(dict.fromkeys(each.device for each in points))
    screen.print(Text.assemble((answer.model.name, "bold"), f" on {devices}, {kind}"))
    screen.print()
    listing(screen, _COLUMNS, [_row(each, name) for each, name in _named(points)])
    _notes(screen, points)


def _named(points: Sequence[ScalePoint]) -> list[tuple[ScalePoint, str]]:
    """The points with what their rows are called: the device too, where there are several."""
    alike = len({each.device for each in points}) == 1
    return [
        (each, str(each.gpus) if alike else f"{each.gpus}x{each.device.partition('-')[0]}")
        for each in points
    ]


def _row(point: ScalePoint, name: str) -> list[Text]:
    answer = point.answer
    if answer is None:
        missing = (Text("-", "dim") for _ in range(6))
        return [Text(name), *missing, Text("cannot run"), Text("")]
    step = answer.step
    fits = Text("fits", "green") if answer.fits else Text("too large", "red")
    return [
        Text(name),
        Text(str(point.gbs)),
        Text(format_seconds(step.seconds)),
        Text(format_count(step.tokens_per_second)),
        Text(format_count(step.tokens_per_second_per_gpu)),
        Text(format_percent(step.mfu)),
        Text(gib(answer.memory.peak_bytes.device)),
        fits,
        Text(format_percent(point.efficiency or 0.0)),
    ]


def _notes(screen: Console, points: Sequence[ScalePoint]) -> None:
    shown = _named(points)
    refused = [f"{name} GPUs: {each.refused}" for each, name in shown if each.refused]
    if refused:
        heading(screen, "Cannot run")
        bullets(screen, refused)
    runs = [(name, each.answer.run) for each, name in shown if each.answer and each.answer.run]
    if runs:
        heading(screen, "Run")
        columns: tuple[tuple[str, Justify], ...] = (
            ("GPUs", "right"),
            ("days", "right"),
            ("GPU-hours", "right"),
            ("cost", "right"),
        )
        rows = []
        for name, run in runs:
            failed = run.failures
            days, hours = (
                (run.days, run.gpu_hours) if failed is None else (failed.days, failed.gpu_hours)
            )
            cost = "-" if run.cost is None else f"{run.cost:,.0f}"
            rows.append((name, f"{days:,.2f}", f"{hours:,.0f}", cost))
        listing(screen, columns, rows)
    screen.print()
    note = "efficiency: tokens/s of one GPU over the first row's; MFU counts attention in full"
    print_block(screen, Text(note, "dim"))
