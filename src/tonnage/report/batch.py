"""Batch curves on a terminal: a bar of throughput for each batch, the knee and memory marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Column
from rich.text import Text

from tonnage.quantity import format_count, format_percent, format_seconds
from tonnage.report.bars import bar
from tonnage.report.layout import (
    INDENT,
    ascii_only,
    bullets,
    console,
    grid,
    heading,
    print_block,
)
from tonnage.report.memory import gib

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.search.batch_curve import BatchCurve, BatchPoint, Line

_BESIDE = 52
"""Columns that everything but the bar takes."""


def print_batch(curve: BatchCurve, screen: Console | None = None) -> None:
    """Both curves, each with its line: a fixed cost, and a cost for each sequence.

    Args:
        curve: what to print.
        screen: where; None: stdout.
    """
    screen = screen or console()
    answer, plan = curve.answer, curve.answer.plan
    where = f" on {answer.cluster.gpus} x {answer.cluster.device}, seq {plan.seq}"
    screen.print(Text.assemble((answer.model.name, "bold"), where))
    heading(screen, "Micro-batch", f"grad_acc {plan.grad_acc}, dp {plan.dp}; tokens/s")
    marks = {point.mbs: _micro_mark(curve, point) for point in curve.micro}
    _bars(screen, curve.micro, [(p.mbs, marks[p.mbs]) for p in curve.micro], "mbs")
    _notes(screen, [_line(curve.micro_line, "mbs"), _limit(curve)])
    heading(screen, "Global batch", f"mbs {plan.mbs}, dp {plan.dp}; tokens/s")
    shown = [(point.gbs, _whole_mark(curve, point)) for point in curve.whole]
    _bars(screen, curve.whole, shown, "gbs")
    knee = (
        f"knee at gbs {curve.knee}: 90% of what an endless batch reaches, "
        f"{_endless(curve)} tokens/s"
    )
    _notes(screen, [_line(curve.line, "gbs"), knee])


def _bars(
    screen: Console, points: Sequence[BatchPoint], labels: Sequence[tuple[int, str]], name: str
) -> None:
    most = max(point.tokens_per_second for point in points)
    width = max(8, min(screen.width, 100) - 2 * INDENT - _BESIDE)
    table = grid(
        Column(name, no_wrap=True, justify="right"),
        Column("step", no_wrap=True, justify="right"),
        Column("GiB", no_wrap=True, justify="right"),
        Column("", no_wrap=True, width=width),
        Column("", no_wrap=True, justify="right"),
        Column("", no_wrap=True),
    )
    table.show_header, table.header_style = True, "dim"
    for point, (size, mark) in zip(points, labels, strict=True):
        drawn = bar(point.tokens_per_second / most, width, ascii_only=ascii_only(screen))
        style = "cyan" if point.fits else "red"
        table.add_row(
            str(size),
            format_seconds(point.seconds),
            gib(point.peak_bytes),
            Text(drawn, style),
            format_count(point.tokens_per_second),
            Text(mark, "bold" if point.fits else "red"),
        )
    print_block(screen, table)


def _micro_mark(curve: BatchCurve, point: BatchPoint) -> str:
    marks = []
    if not point.fits:
        marks.append("does not fit")
    if point.mbs == curve.micro_knee:
        marks.append("knee")
    if point.mbs == curve.largest_mbs and not all(each.fits for each in curve.micro):
        marks.append("most that fits")
    return ", ".join(marks)


def _whole_mark(curve: BatchCurve, point: BatchPoint) -> str:
    first = next((each.gbs for each in curve.whole if each.gbs >= curve.knee), None)
    mark = "knee" if first == curve.knee else "past the knee"
    marks = [] if point.fits else ["does not fit"]
    return ", ".join([*marks, *([mark] if point.gbs == first else [])])


def _line(line: Line | None, name: str) -> str:
    if line is None:
        return "no two of them fit: no line through them"
    fixed = format_seconds(max(line.fixed, 0.0))
    return (
        f"a step takes {fixed} and {format_seconds(line.per_sample)} for each sequence of "
        f"{name} (within {format_percent(line.error)})"
    )


def _limit(curve: BatchCurve) -> str:
    room = gib(curve.answer.memory.capacity_bytes)
    if curve.largest_mbs is None:
        return f"memory: not even one sequence fits into {room} GiB"
    return f"memory: mbs {curve.largest_mbs} is the most that fits into {room} GiB"


def _endless(curve: BatchCurve) -> str:
    return format_count((curve.answer.plan.seq or 1) / curve.line.per_sample)


def _notes(screen: Console, lines: Sequence[str]) -> None:
    screen.print()
    bullets(screen, lines)
