"""A pipeline's schedule on a terminal: a row a stage, a column a stretch of time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_percent, format_seconds
from tonnage.report.inks import EXPOSED, IDLE, PASS_COLOURS, WAYS, plain
from tonnage.report.layout import INDENT, heading, print_block, print_words

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation.timeline import PipelinePart, SpanPart

READABLE = 1.0
"""Columns that the shortest pass takes at least, so that the eye can follow it."""

_MEANS = {"F": "forward", "B": "backward", "W": "weights' gradients", EXPOSED: "communication"}


def print_gantt(screen: Console, pipeline: PipelinePart) -> None:
    """The passes of every stage; where they are too many for a line, how they begin and end."""
    heading(
        screen,
        f"Schedule {pipeline.schedule}",
        f"{pipeline.replayed} of {pipeline.microbatches} micro-batches"
        if pipeline.replayed < pipeline.microbatches
        else f"{pipeline.microbatches} micro-batches",
    )
    lanes = _lanes(pipeline)
    digits = len(str(len(lanes) - 1))
    width = max(20, screen.width - INDENT - digits - 2)
    shortest = min(span.end - span.start for span in pipeline.spans)
    span = min(pipeline.seconds, width * shortest / READABLE)
    windows = [(0.0, span)]
    if span < pipeline.seconds:
        windows.append((pipeline.seconds - span, pipeline.seconds))
    for start, end in windows:
        for stage, lane in lanes.items():
            text = Text(f"{stage:>{digits}} ", "dim")
            for column in range(width):
                letter = _letter_at(lane, start + (column + 0.5) * (end - start) / width)
                text.append(letter, _style(screen, letter))
            print_block(screen, text)
        ends = (format_seconds(start) if start else "0", format_seconds(end))
        gap = " " * max(1, width - len(ends[0]) - len(ends[1]))
        print_block(screen, Text(" " * (digits + 1) + ends[0] + gap + ends[1], "dim"))
    _words(screen, pipeline, {letter for lane in lanes.values() for *_, letter in lane})


def _style(screen: Console, letter: str) -> str:
    if plain(screen) or letter == IDLE:
        return "dim" if letter == IDLE else ""
    return f"#ffffff on {PASS_COLOURS[letter]}"


def _lanes(pipeline: PipelinePart) -> dict[int, list[tuple[float, float, str]]]:
    """By stage, stretches of time and their letters, in order."""
    spans: dict[int, dict[tuple[float, float], list[SpanPart]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for span in pipeline.spans:
        spans[span.stage][span.start, span.end].append(span)
    lanes: dict[int, list[tuple[float, float, str]]] = {}
    for stage in sorted(spans):
        lane: list[tuple[float, float, str]] = []
        for (start, end), together in sorted(spans[stage].items()):
            sends = any(span.way != "weight" for span in together)
            shown = (end - start) * (1.0 - sends * pipeline.exposed_share[stage])
            each = shown / len(together)
            for place, span in enumerate(together):
                begin = start + place * each
                lane.append((begin, begin + each, WAYS[span.way]))
            if start + shown < end:
                lane.append((start + shown, end, EXPOSED))
        lanes[stage] = lane
    return lanes


def _letter_at(lane: list[tuple[float, float, str]], at: float) -> str:
    index = bisect_right(lane, at, key=lambda stretch: stretch[0]) - 1
    if index < 0 or at >= lane[index][1]:
        return IDLE
    return lane[index][2]


def _words(screen: Console, pipeline: PipelinePart, letters: set[str]) -> None:
    words = [
        Text.assemble((letter, _style(screen, letter)), f" {meaning}   ")
        for letter, meaning in _MEANS.items()
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
