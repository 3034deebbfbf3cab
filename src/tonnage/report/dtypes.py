"""Number formats on a terminal and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tonnage.report.layout import Justify, bullets, console, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.dtype import DType

_COLUMNS: tuple[tuple[str, Justify], ...] = (
    ("name", "left"),
    ("bits", "right"),
    ("exp", "right"),
    ("man", "right"),
    ("largest", "right"),
    ("normal", "right"),
    ("smallest", "right"),
    ("epsilon", "right"),
    ("block", "right"),
    ("stored", "right"),
)


def dtype_json(entry: DType) -> dict[str, object]:
    """A format as JSON takes it; null is what it does not have."""
    return {
        "name": entry.name,
        "bits": entry.bits,
        "exponent": entry.exponent,
        "mantissa": entry.mantissa,
        "largest": entry.largest,
        "smallest_normal": entry.smallest_normal,
        "smallest_subnormal": entry.smallest_subnormal,
        "epsilon": entry.epsilon,
        "specials": entry.specials,
        "block": entry.block or None,
        "scale_bits": entry.scale_bits or None,
        "effective_bits": entry.effective_bits,
    }


def print_dtypes(entries: Sequence[DType], screen: Console | None = None) -> None:
    """Print the formats, one a line."""
    screen = screen or console()
    listing(screen, _COLUMNS, [_row(entry) for entry in entries])
    screen.print()
    bullets(
        screen,
        (
            "normal: the smallest positive number with a whole mantissa; smallest: with a "
            "shortened one, the smallest subnormal; epsilon: from 1 to the next number",
            "block formats: range and resolution of an element, before its scale; stored: its "
            "bits with its share of the block's scale",
            "tf32 is stored as fp32: 19 of its 32 bits are multiplied",
            "e5m6 is stored and never multiplied: DeepSeek-V3's for attention's outputs",
            "mxfp8 and mxfp6 with E4M3 and E2M3 elements; nf4 has 16 levels of its own",
            "tonnage dtypes --cast VALUE... shows what values become",
        ),
    )


def number(value: float | None) -> str:
    """A number to three digits, as short as it gets; ``-`` for none."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 100_000:
        return str(int(value))
    if abs(value) < 1e-3:
        return _short(f"{value:.2e}")
    return _short(f"{value:.3g}")


def _short(text: str) -> str:
    """Without the plus and the zeros of an exponent: ``3.4e38``."""
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), text)


def _row(entry: DType) -> list[str]:
    floating = bool(entry.exponent)
    return [
        entry.name,
        str(entry.bits),
        str(entry.exponent) if floating else "-",
        str(entry.mantissa) if floating else "-",
        number(entry.largest),
        number(entry.smallest_normal),
        number(entry.smallest_subnormal),
        number(entry.epsilon),
        str(entry.block or "-"),
        f"{entry.effective_bits:g}",
    ]
