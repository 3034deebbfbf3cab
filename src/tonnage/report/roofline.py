"""A roofline on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tonnage.quantity import format_flops, format_rate, format_seconds
from tonnage.report.layout import (
    INDENT,
    Justify,
    ascii_only,
    bullets,
    console,
    facts,
    heading,
    listing,
)
from tonnage.report.loglog import plot

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.arch import Architecture
    from tonnage.roofline import Chart, Point, Roof, Size

MARKS = {"training": "T", "prefill": "P", "decode": "D"}
_HEIGHT = 16


def roofline_json(chart: Chart, size: Size) -> dict[str, object]:
    """A roofline as JSON takes it, in FLOPs, bytes and seconds."""
    return {
        "dtype": chart.dtype,
        "seq": size.seq,
        "mbs": size.mbs,
        "roofs": [
            {
                "device": roof.device,
                "peak": roof.peak,
                "bandwidth": roof.bandwidth,
                "ridge": roof.ridge,
            }
            for roof in chart.roofs
        ],
        "points": [_point_json(chart, point) for point in chart.points],
    }


def _point_json(chart: Chart, point: Point) -> dict[str, object]:
    return {
        "model": point.model,
        "phase": point.phase,
        "operation": point.name,
        "layers": point.count,
        "flops": point.flops,
        "bytes": point.bytes,
        "intensity": point.intensity,
        "devices": {
            roof.device: {
                "bound": roof.bound(point),
                "attainable": roof.attainable(point.intensity),
                "seconds": roof.seconds(point),
            }
            for roof in chart.roofs
        },
    }


def print_chart(chart: Chart, notes: Iterable[str], screen: Console | None = None) -> None:
    """Print the roofs, a plot, and a table for each phase of each model."""
    screen = screen or console()
    heading(screen, "Roofs", f"dense {chart.dtype}")
    facts(
        screen,
        [
            (
                roof.device,
                format_rate(roof.peak),
                f"and {format_rate(roof.bandwidth, 'B/s')}: ridge {roof.ridge:.0f} FLOP/byte",
            )
            for roof in chart.roofs
        ],
    )
    screen.print()
    width = min(screen.width, 80) - INDENT
    for line in plot(chart, MARKS, width, _HEIGHT, plain=ascii_only(screen)):
        screen.file.write(f"{' ' * INDENT}{line}\n")
    for (model, phase), group in groupby(chart.points, lambda point: (point.model, point.phase)):
        heading(screen, f"{model} {phase}", f"{MARKS[phase]}; one layer")
        _table(screen, chart.roofs, list(group))
    screen.print()
    bullets(screen, notes)


def notes(chart: Chart, size: Size, architectures: Sequence[Architecture]) -> Iterable[str]:
    """What is counted, and what is left out."""
    from tonnage.roofline import undecoded

    yield "seconds: FLOPs over peak or bytes over bandwidth, the larger; a limit, no forecast"
    if not chart.points:
        return
    yield (
        f"{size.mbs} x {size.seq} tokens on one device; training is forward and backward, "
        f"decode one token a sequence with {size.seq} in the cache"
    )
    yield "each tensor and weight moves once; matrix products and attention only"
    for each in architectures:
        left_out = undecoded(each)
        if left_out:
            yield f"{each.name}: decode leaves out {left_out} layers, whose cache is not modelled"


def _table(screen: Console, roofs: Sequence[Roof], points: Sequence[Point]) -> None:
    columns: list[tuple[str, Justify]] = [
        ("operation", "left"),
        ("layers", "right"),
        ("FLOPs", "right"),
        ("FLOP/byte", "right"),
    ]
    columns += [(_short(roof.device), "right") for roof in roofs]
    rows = [
        [
            point.name,
            str(point.count),
            format_flops(point.flops).removesuffix("FLOP"),
            f"{point.intensity:.3g}" if point.intensity < 100 else f"{point.intensity:.0f}",
            *(f"{roof.bound(point)} {format_seconds(roof.seconds(point))}" for roof in roofs),
        ]
        for point in points
    ]
    wide = screen if screen.is_terminal else console(width=1000)
    listing(wide, columns, rows)


def _short(device: str) -> str:
    """A device's name without its form and memory: the roofs have it in full."""
    return device.split("-")[0]
