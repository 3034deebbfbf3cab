"""A roofline as SVG: axes, roofs, and a labelled point for each operation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.roofline import Chart, Roof

_WIDTH, _HEIGHT = 960, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 110, 50
_LINE = 16
_LABEL = 18
"""Pixels between labels; points that are nearer share one."""


class _Frame:
    """Where an intensity and a rate are on the page."""

    def __init__(self, chart: Chart) -> None:
        self._x = tuple(map(math.log10, chart.intensities))
        self._y = tuple(map(math.log10, chart.rates))

    def x(self, intensity: float) -> float:
        """Pixels from the left."""
        share = (math.log10(intensity) - self._x[0]) / (self._x[1] - self._x[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        """Pixels from the top."""
        share = (math.log10(rate) - self._y[0]) / (self._y[1] - self._y[0])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def intensity(self, x: float) -> float:
        """The intensity at so many pixels from the left."""
        share = (x - _LEFT) / (_WIDTH - _LEFT - _RIGHT)
        return float(10 ** (self._x[0] + share * (self._x[1] - self._x[0])))

    def decades(self, *, vertical: bool) -> range:
        """The powers of ten inside an axis."""
        low, high = self._y if vertical else self._x
        return range(math.ceil(low), math.floor(high) + 1)


def svg(chart: Chart) -> str:
    """The picture."""
    frame = _Frame(chart)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 30, f"Roofline, dense {chart.dtype}", size=16),
        *_axes(frame),
        *(
            part
            for index, roof in enumerate(chart.roofs)
            for part in _roof(frame, chart, roof, index)
        ),
        *_points(frame, chart),
        *_legend(chart),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes(frame: _Frame) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in frame.decades(vertical=False):
        x = frame.x(10.0**power)
        yield _line((x, _TOP), (x, bottom), "#dddddd")
        yield _text(x, bottom + 18, f"{10.0**power:g}", anchor="middle")
    for power in frame.decades(vertical=True):
        y = frame.y(10.0**power)
        yield _line((_LEFT, y), (right, y), "#dddddd")
        yield _text(_LEFT - 8, y + 4, f"1e{power}", anchor="end")
    yield _line((_LEFT, bottom), (right, bottom), "#333333")
    yield _line((_LEFT, _TOP), (_LEFT, bottom), "#333333")
    yield _text((_LEFT + right) / 2, _HEIGHT - 12, "FLOP per byte", anchor="middle")
    yield _text(12, _TOP - 8, "FLOP/s")


def _roof(frame: _Frame, chart: Chart, roof: Roof, index: int) -> Iterator[str]:
    low, high = chart.intensities
    x = sorted((low, roof.ridge, high))
    corners = " ".join(f"{frame.x(i):.1f},{frame.y(roof.attainable(i)):.1f}" for i in x)
    yield f'<polyline points="{corners}" fill="none" stroke="{colour(index)}" stroke-width="2"/>'


def _points(frame: _Frame, chart: Chart) -> Iterator[str]:
    """A disc for each point on each roof, and labels along the first."""
    series = {key: index for index, key in enumerate(_series(chart))}
    labels: dict[int, list[str]] = {}
    for point in chart.points:
        ink = colour(series[point.model, point.phase] + len(chart.roofs))
        for roof in chart.roofs:
            place = frame.x(point.intensity), frame.y(roof.attainable(point.intensity))
            title = f"{point.model} {point.phase} {point.name}: {point.intensity:.3g} FLOP/byte, "
            yield _disc(place, ink, f"{title}{roof.bound(point)}-bound on {roof.device}")
        labels.setdefault(round(frame.x(point.intensity) / _LABEL), []).append(point.name)
    for column, names in labels.items():
        x = column * _LABEL
        y = frame.y(chart.roofs[0].attainable(frame.intensity(x))) - 10
        yield _label((x, y), list(dict.fromkeys(names)))


def _disc(place: tuple[float, float], ink: str, title: str) -> str:
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="5" fill="{ink}" fill-opacity="0.7">'
        f"<title>{escape(title)}</title></circle>"
    )


def _label(place: tuple[float, float], names: list[str]) -> str:
    """The first of the names on a spot and how many more there are, slanted."""
    x, y = place
    text = escape(names[0]) + (f" +{len(names) - 1}" if len(names) > 1 else "")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="10" fill="#333333" '
        f'transform="rotate(-40 {x:.1f} {y:.1f})">{text}</text>'
    )


def _series(chart: Chart) -> list[tuple[str, str]]:
    return [key for key, _ in groupby(chart.points, lambda p: (p.model, p.phase))]


def _legend(chart: Chart) -> Iterator[str]:
    roofs = [f"{roof.device}: ridge {roof.ridge:.0f}" for roof in chart.roofs]
    entries = roofs + [" ".join(key) for key in _series(chart)]
    top = _HEIGHT - _BOTTOM - _LINE * len(entries)
    for index, entry in enumerate(entries):
        y = top + _LINE * index
        ink, x = colour(index), _WIDTH - 290
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{ink}"/>'
        yield _text(x + 16, y, entry)


def _line(start: tuple[float, float], end: tuple[float, float], ink: str) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{ink}"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
