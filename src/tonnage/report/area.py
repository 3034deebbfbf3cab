"""Stacked areas made of characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

Stack = Mapping[str, float]
"""What lies on what at one place, from the bottom up: a name and its height."""


def fullest_in(
    places: Sequence[float], stacks: Sequence[Stack], start: float, end: float, columns: int
) -> list[Stack]:
    """The highest stack in each of ``columns`` equal parts from ``start`` to ``end``.

    Between two places a stack goes from one to the other in a line, so that the highest of a part
    is at a place in it or at its borders.
    """
    width = (end - start) / columns or 1.0
    found: list[Stack] = []
    for column in range(columns):
        left, right = start + column * width, start + (column + 1) * width
        inside = [stack for at, stack in zip(places, stacks, strict=True) if left <= at < right]
        borders = [_between(places, stacks, at) for at in (left, right)]
        found.append(max((*inside, *borders), key=lambda stack: sum(stack.values())))
    return found


def _between(places: Sequence[float], stacks: Sequence[Stack], at: float) -> Stack:
    index = bisect_right(places, at)
    if index == 0:
        return stacks[0]
    if index == len(places):
        return stacks[-1]
    before, after = places[index - 1], places[index]
    share = (at - before) / (after - before) if after > before else 1.0
    low, high = stacks[index - 1], stacks[index]
    return {name: low[name] + share * (high[name] - low[name]) for name in low}


def rows_of(stacks: Sequence[Stack], top: float, height: int) -> list[list[str]]:
    """The picture, highest row first: in each cell the name of what is there, or nothing.

    A cell shows what lies at half its height; a stack that is not empty has at least one cell.
    """
    rows: list[list[str]] = []
    for row in range(height - 1, -1, -1):
        level = (row + 0.5) / height * top
        rows.append([_name_at(stack, level, bottom=row == 0) for stack in stacks])
    return rows


def _name_at(stack: Stack, level: float, *, bottom: bool) -> str:
    reached = 0.0
    for name, size in stack.items():
        reached += size
        if reached > level:
            return name
    if bottom and reached > 0:
        return max(stack, key=lambda name: stack[name])
    return ""
