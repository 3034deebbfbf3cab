"""Estimates side by side on a terminal."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tonnage.quantity import format_bytes, format_count, format_percent, format_seconds
from tonnage.report.layout import Cell, console, heading, listing, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.search.comparison import Comparison, Row

_FORMATS: dict[str, Callable[[Any], str]] = {
    "bytes": format_bytes,
    "seconds": format_seconds,
    "count": format_count,
    "share": format_percent,
    "text": lambda value: _word(value),
}

_MANY = 10.0
"""From this many times the first on, a figure's distance is told as a multiple."""


def print_comparison(found: Comparison, screen: Console | None = None) -> None:
    """Print a comparison: what was asked, then what came of it, pinned to the first side.

    Args:
        found: the comparison.
        screen: where; None: stdout.
    """
    screen = screen or console()
    letters = string.ascii_uppercase
    titles = [letters[i % 26] * (1 + i // 26) for i in range(len(found.names))]
    for title, name in zip(titles, found.names, strict=True):
        print_block(screen, Text.assemble((title, "bold"), f"  {name}"), indent=0)
    heading(screen, "What differs")
    columns = [("", "left"), *((title, "right") for title in titles)]
    listing(screen, columns, [[row.name, *_texts(row)] for row in found.asked])  # type: ignore[arg-type]
    heading(screen, "What comes of it", "differences are from A")
    listing(screen, columns, [[row.name, *_cells(row)] for row in found.found])  # type: ignore[arg-type]


def _texts(row: Row) -> list[str]:
    return [_FORMATS[row.unit](value) for value in row.values]


def _cells(row: Row) -> list[Cell]:
    """Values with their distance from the first."""
    cells: list[Cell] = []
    for index, (value, ratio) in enumerate(zip(row.values, row.ratios, strict=True)):
        text = "-" if value is None else _FORMATS[row.unit](value)
        if index == 0 or ratio is None or row.name == "headroom":
            cells.append(text)
        else:
            far = f"x {ratio + 1:.0f}" if ratio + 1 >= _MANY else f"{ratio:+.1%}"
            cells.append(Text.assemble(text, (f" {far:>7}", "dim")))
    return cells


def _word(value: object) -> str:
    """A field of a plan as its flag takes it."""
    if value is None or value == () or value == []:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
