"""A roofline as a file, by the ending of its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tonnage.errors import InputError, MissingPartError
from tonnage.report.roofline_html import html
from tonnage.report.roofline_svg import svg

if TYPE_CHECKING:
    from tonnage.roofline import Chart


def write(chart: Chart, path: str) -> None:
    """Write a picture; nothing is left behind where it cannot be drawn.

    Raises:
        InputError: the ending is none of those known, or the file cannot be written.
        MissingPartError: a part that the kind of picture needs is not installed.
    """
    ending = os.path.splitext(path)[1].lower()
    draw = _KINDS.get(ending)
    if draw is None:
        raise InputError(
            field="out",
            value=path,
            problem="has no ending that says what to draw",
            accepted=", ".join(_KINDS),
        )
    picture = draw(chart)
    try:
        with open(path, "wb") as file:
            file.write(picture)
    except OSError as error:
        raise InputError(
            field="out", value=path, problem=f"cannot be written: {error.strerror or error}"
        ) from None


def _png(chart: Chart) -> bytes:
    """The SVG, drawn by cairosvg, which needs the cairo library of the system."""
    try:
        import cairosvg
    except (ImportError, OSError):
        raise MissingPartError(
            part="cairosvg and the cairo library", extra="png", purpose="a PNG file"
        ) from None
    drawn: bytes = cairosvg.svg2png(bytestring=svg(chart).encode(), scale=2)
    return drawn


_KINDS: dict[str, Callable[[Chart], bytes]] = {
    ".html": lambda chart: html(chart).encode(),
    ".svg": lambda chart: svg(chart).encode(),
    ".png": _png,
}
