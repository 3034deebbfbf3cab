"""A pipeline's schedule on a terminal: a row a stage, a column a stretch of time."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_percent, format_seconds
from tonnage.report.inks import IDLE, MEANS, PASS_COLOURS, plain
from tonnage.report.lanes import Stretch, lanes
from tonnage.report.layout import INDENT, heading, print_block, print_words

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation.timeline import PipelinePart

READABLE = 1.0
"""Columns that the shortest pass takes at least, so that the eye can follow it."""


def print_gantt(screen: Console, pipeline: PipelinePart) -> None:
    """The passes of every stage; where they are too many for a line, how they begin and end."""
    heading(
        screen,
        f"Schedule {pipeline.schedule}",
        f"{pipeline.replayed} of {pipeline.microbatches} micro-batches"
        if pipeline.replayed < pipeline.microbatches
        else f"{pipeline.microbatches} micro-batches",
    )
    rows = lanes(pipeline)
    digits = len(str(len(rows) - 1))
    width = max(20, screen.width - INDENT - digits - 2)
    shortest = min(span.end - span.start for span in pipeline.spans)
    span = min(pipeline.seconds, width * shortest / READABLE)
    windows = [(0.0, span)]
    if span < pipeline.seconds:
        windows.append((pipeline.seconds - span, pipeline.seconds))
    for start, end in windows:
        for stage, lane in rows.items():
            text = Text(f"{stage:>{digits}} ", "dim")
            for column in range(width):
                letter = _letter_at(lane, start + (column + 0.5) * (end - start) / width)
                text.append(letter, _style(screen, letter))
            print_block(screen, text)
        ends = (format_seconds(start) if start else "0", format_seconds(end))
        gap = " " * max(1, width - len(ends[0]) - len(ends[1]))
        print_block(screen, Text(" " * (digits + 1) + ends[0] + gap + ends[1], "dim"))
    _words(screen, pipeline, {each.letter for lane in rows.values() for each in lane})


def _style(screen: Console, letter: str) -> str:
    if plain(screen) or letter == IDLE:
        return "dim" if letter == IDLE else ""
    return f"#ffffff on {PASS_COLOURS[letter]}"


def _letter_at(lane: list[Stretch], at: float) -> str:
    index = bisect_right(lane, at, key=lambda stretch: stretch.start) - 1
    return lane[index].letter if index >= 0 and at < lane[index].end else IDLE


def _words(screen: Console, pipeline: PipelinePart, letters: set[str]) -> None:
    words = [
        Text.assemble((letter, _style(screen, letter)), f" {meaning}   ")
        for letter, meaning in MEANS.items()
        if letter in letters
    ]
    print_words(screen, [*words, Text.assemble((IDLE, "dim"), " idle")])
    gap = pipeline.form_seconds / pipeline.step_seconds - 1.0
    print_block(
        screen,
        f"stages are idle {format_percent(pipeline.idle)} of what is drawn; all micro-batches take "
        f"{format_seconds(pipeline.step_seconds)} pass by pass, and "
        f"{format_seconds(pipeline.form_seconds)} ({gap:+.1%}) by the closed form of the estimate",
    )
