"""Memory over a step on a terminal: a stacked chart, its peak, and what is alive then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_seconds
from tonnage.report.area import fullest_in, rows_of
from tonnage.report.inks import CATEGORY_COLOURS, CATEGORY_LETTERS, plain
from tonnage.report.layout import INDENT, ascii_only, heading, listing, print_block, print_words
from tonnage.report.memory import gib

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate, RunTimeline
    from tonnage.estimation.timeline import TimelinePart

HEIGHT = 16
MARGIN = 9
"""Columns left of a chart, for its scale."""

FAR = 1.6
"""A capacity more than so many times the peak is named, not drawn."""


def print_timeline(screen: Console, answer: Estimate, run: RunTimeline) -> None:
    """The fullest stage over a later step and over the first, and its largest tensors."""
    room = answer.memory.capacity_bytes - answer.memory.outside_bytes
    count = len(run.stages)
    where = f", stage {run.fullest.stage} of {count}" if count > 1 else ""
    heading(screen, "Memory over a step", f"tensors in GiB{where}")
    _chart(screen, run.fullest, room)
    _short_step(screen, run)
    heading(screen, "Memory over the first step", "after loading, which takes no time here")
    _chart(screen, run.first_step, room)
    heading(screen, "Largest at the peak", f"of {gib(run.fullest.peak_bytes)} GiB")
    listing(
        screen,
        (("tensor", "left"), ("category", "left"), ("count", "right"), ("GiB", "right")),
        [
            (row.name, row.category, str(row.count), gib(row.bytes))
            for row in run.fullest.top_tensors
        ],
    )


def _short_step(screen: Console, run: RunTimeline) -> None:
    pipeline = run.pipeline
    if pipeline.replayed < pipeline.microbatches:
        text = (
            f"{pipeline.replayed} of {pipeline.microbatches} micro-batches are drawn: "
            "the others repeat what they hold"
        )
        print_block(screen, Text(text, "dim"))


def _chart(screen: Console, line: TimelinePart, room: int) -> None:
    width = max(20, screen.width - INDENT - MARGIN - 1)
    near = room <= FAR * line.peak_bytes
    top = 1.02 * max(line.peak_bytes, room if near else 0)
    stacks = [
        {name: float(line.categories[name][point]) for name in CATEGORY_LETTERS}
        for point in range(len(line.seconds))
    ]
    start, end = line.seconds[0], line.seconds[-1]
    columns = fullest_in(line.seconds, stacks, start, end, width)
    limit = HEIGHT - 1 - int(room / top * HEIGHT) if near else None
    for number, row in enumerate(rows_of(columns, top, HEIGHT)):
        level = (HEIGHT - number) / HEIGHT * top
        label = gib(int(level)) if number % 4 == 0 else ""
        text = Text(f"{label:>{MARGIN - 2}} ")
        text.append("+" if ascii_only(screen) else "│", "dim")
        for name in row:
            text.append_text(_cell(screen, name, limit=number == limit))
        print_block(screen, text)
    ends = (format_seconds(abs(start)), format_seconds(end))
    begins = f"-{ends[0]}" if start < 0 else "0"
    between = max(1, width - len(begins) - len(ends[1]))
    print_block(screen, Text(" " * MARGIN + begins + " " * between + ends[1], "dim"))
    _legend(screen, line)
    _peak(screen, line, room, drawn=near)


def _cell(screen: Console, name: str, *, limit: bool) -> Text:
    if not name:
        return Text("-" if limit else " ", "red")
    if plain(screen) or ascii_only(screen):
        return Text(CATEGORY_LETTERS[name])
    return Text("█", CATEGORY_COLOURS[name])


def _legend(screen: Console, line: TimelinePart) -> None:
    words = [
        Text.assemble(_cell(screen, name, limit=False), f" {name}   ")
        for name in CATEGORY_LETTERS
        if max(line.categories[name])
    ]
    print_words(screen, words)


def _peak(screen: Console, line: TimelinePart, room: int, *, drawn: bool) -> None:
    at = format_seconds(max(line.seconds[line.peak_point], 0.0))
    where = line.peak_phase
    if line.peak_instant not in where:
        where = f"{line.peak_instant}, {where}"
    text = Text.assemble((f"peak {gib(line.peak_bytes)} GiB", "bold"), f" at {at}: {where}")
    print_block(screen, text)
    mark = "the line of -" if drawn else "beyond the chart"
    print_block(screen, Text(f"room for tensors {gib(room)} GiB, {mark}", "dim"))
