"""A roofline drawn with characters, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tonnage.roofline import Chart, Roof

_LABELS = 7
"""Columns left of the axis."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plot(
    chart: Chart, marks: Mapping[str, str], width: int, height: int, *, plain: bool
) -> Iterator[str]:
    """The lines of a plot: FLOP/s over FLOP per byte.

    Roofs are drawn first, and on them a letter for each operation, by its phase; several
    on one spot of different phases are a ``*``.

    Args:
        chart: what to draw.
        marks: a letter a phase.
        width: columns, labels included.
        height: rows of the plot itself.
        plain: the output has ASCII alone.
    """
    canvas = _Canvas(chart, width - _LABELS - 1, height)
    for roof in chart.roofs:
        canvas.roof(roof, "-" if plain else "─", "/" if plain else "╱")
    for point in chart.points:
        for roof in chart.roofs:
            canvas.mark(point.intensity, roof.attainable(point.intensity), marks[point.phase])
    axis, corner, floor = ("|", "+", "-") if plain else ("│", "└", "─")
    decades = canvas.decades(vertical=True)
    for row, cells in enumerate(canvas.cells):
        label = _power(decades[row], plain) if row in decades else ""
        yield f"{label:>{_LABELS}}{axis}{''.join(cells)}".rstrip()
    yield f"{'FLOP/s':>{_LABELS}}{corner}{floor * canvas.width}"
    yield f"{'':{_LABELS + 1}}{canvas.ticks(plain)}".rstrip()


class _Canvas:
    """A grid of characters over logarithmic axes."""

    def __init__(self, chart: Chart, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells = [[" "] * width for _ in range(height)]
        self._x = tuple(map(math.log10, chart.intensities))
        self._y = tuple(map(math.log10, chart.rates))
        self._marks: dict[tuple[int, int], str] = {}

    def roof(self, roof: Roof, flat: str, slope: str) -> None:
        """Draw a roof, a character a column."""
        for column in range(self.width):
            x = self._x[0] + (column + 0.5) / self.width * (self._x[1] - self._x[0])
            rate = roof.attainable(10**x)
            row = self._row(rate)
            if 0 <= row < self.height:
                self.cells[row][column] = flat if rate >= roof.peak else slope

    def mark(self, intensity: float, rate: float, letter: str) -> None:
        """Put a letter on a spot; ``*`` where another letter stands."""
        place = (self._row(rate), self._column(intensity))
        if not (0 <= place[0] < self.height and 0 <= place[1] < self.width):
            return
        letter = letter if self._marks.get(place, letter) == letter else "*"
        self._marks[place] = self.cells[place[0]][place[1]] = letter

    def decades(self, *, vertical: bool) -> dict[int, int]:
        """The powers of ten inside an axis, by row or column."""
        low, high = self._y if vertical else self._x
        place = self._row if vertical else self._column
        found = range(math.ceil(low), math.floor(high) + 1)
        return {place(10.0**power): power for power in found}

    def ticks(self, plain: bool) -> str:
        """The labels below, and what they are in."""
        line = [" "] * (self.width + 4)
        for column, power in self.decades(vertical=False).items():
            text = _power(power, plain)
            line[column : column + len(text)] = text
        unit = "FLOP/byte"
        return "".join(line[: self.width - len(unit)]) + unit

    def _column(self, intensity: float) -> int:
        low, high = self._x
        return int((math.log10(intensity) - low) / (high - low) * self.width)

    def _row(self, rate: float) -> int:
        low, high = self._y
        return int((high - math.log10(rate)) / (high - low) * self.height)


def _power(power: int, plain: bool) -> str:
    return f"1e{power}" if plain else f"10{str(power).translate(_SUPERSCRIPTS)}"
