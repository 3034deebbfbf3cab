"""What values become in each format, on a terminal and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonnage.casting import CASTS, Block, Cast, cast, cast_blocks
from tonnage.dtype import dtype
from tonnage.report.layout import Justify, bullets, console, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.casting.elements import Floats

_WIDE = 5
"""Values side by side; more are printed below."""

_OUTLIERS = ("mxfp4", "nvfp4")
"""The formats whose blocks are shown."""


@dataclass(frozen=True, kw_only=True)
class Casts:
    """Values in all formats.

    Attributes:
        values: the values, as FP32.
        formats: by format, what each value becomes.
        blocks: the blocks of the 4-bit formats; none for one value alone.
    """

    values: tuple[float, ...]
    formats: dict[str, tuple[Cast, ...]]
    blocks: tuple[Block, ...]


def cast_all(values: Floats) -> Casts:
    """Cast values to all formats.

    Raises:
        MissingPartError: ml_dtypes is not installed.
    """
    several = len(values) > 1
    return Casts(
        values=tuple(values.tolist()),
        formats={entry.name: cast(values, entry) for entry in CASTS},
        blocks=tuple(
            block for name in _OUTLIERS if several for block in cast_blocks(values, dtype(name))
        ),
    )


def casts_json(casts: Casts) -> dict[str, object]:
    """Casts as JSON takes them: null for infinities and NaN, which ``overflow`` names."""
    return {
        "casts": [
            {
                "value": value,
                "formats": {
                    name: _cast_json(column[index]) for name, column in casts.formats.items()
                },
            }
            for index, value in enumerate(casts.values)
        ],
        "blocks": [_block_json(block) for block in casts.blocks],
    }


def _cast_json(entry: Cast) -> dict[str, object]:
    return {
        "becomes": entry.becomes if math.isfinite(entry.becomes) else None,
        "overflow": entry.overflow or None,
        "saturated": entry.saturated,
    }


def _block_json(block: Block) -> dict[str, object]:
    rows = zip(block.values, block.becomes, block.alone, strict=True)
    return {
        "format": block.format,
        "first": block.first,
        "scale": block.scale,
        "tensor_scale": block.tensor_scale,
        "elements": [
            {
                "value": value,
                "becomes": after,
                "alone": alone,
                "relative_error": _error(value, after),
            }
            for value, after, alone in rows
        ],
    }


def print_casts(casts: Casts, screen: Console | None = None) -> None:
    """Print a row a format and a column a value, and then the blocks of the 4-bit formats."""
    screen = screen or console()
    for first in range(0, len(casts.values), _WIDE):
        values = casts.values[first : first + _WIDE]
        columns: list[tuple[str, Justify]] = [("format", "left")]
        columns += [(_digits(value), "right") for value in values]
        rows = [
            [name, *map(_shown, column[first : first + _WIDE])]
            for name, column in casts.formats.items()
        ]
        listing(screen, columns, rows)
        screen.print()
    bullets(screen, _notes(casts))
    for block in casts.blocks:
        _print_block(screen, block)


def _notes(casts: Casts) -> Iterable[str]:
    yield "values are FP32 first, then rounded to nearest, ties to even"
    if any(entry.overflow for column in casts.formats.values() for entry in column):
        yield "inf, nan: too large, where the cast does not saturate; !: as far as the format goes"
    if len(casts.values) > 1:
        yield "block formats: the values are one tensor, in order"
    else:
        yield "block formats: the value is alone in its tensor"
    yield "int8 and int4 without a scale"


def _print_block(screen: Console, block: Block) -> None:
    last = block.first + len(block.values)
    extent = f"values {block.first + 1} to {last}" if last - block.first > 1 else f"value {last}"
    scales = f"scale {_digits(block.scale)}"
    if block.tensor_scale is not None:
        scales += f", of which the tensor's {_digits(block.tensor_scale)}"
    heading(screen, block.format, f"{extent}; {scales}")
    columns: list[tuple[str, Justify]] = [
        (name, "right") for name in ("value", "alone", "in its block", "error")
    ]
    rows = [
        [_digits(value), _digits(alone), _digits(after), _percent(_error(value, after))]
        for value, after, alone in zip(block.values, block.becomes, block.alone, strict=True)
    ]
    listing(screen, columns, rows)


def _shown(entry: Cast) -> str:
    text = _digits(entry.becomes)
    return f"{text}!" if entry.overflow == "saturates" else text


def _digits(value: float) -> str:
    return f"{value:.6g}"


def _error(value: float, after: float) -> float | None:
    """The error relative to the value; None where that is 0."""
    return abs(after - value) / abs(value) if value else None


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{error:.1%}"
