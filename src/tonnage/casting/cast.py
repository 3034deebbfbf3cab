"""Values in every number format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tonnage.casting.blocks import cast_blocks
from tonnage.casting.elements import round_to, saturated
from tonnage.dtype import DTYPES, DType
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.casting.elements import Floats

MOST_VALUES = 4096
_LARGEST = 3.4028234663852886e38
"""The largest FP32 number."""

_NO_CAST = ("nf4", "e5m6")
"""Levels of its own, and a format that ml_dtypes lacks."""

CASTS: tuple[DType, ...] = tuple(entry for entry in DTYPES if entry.name not in _NO_CAST)
"""The formats that values are cast to: elements evenly spaced, or floats of ml_dtypes."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What a value becomes in one format.

    Attributes:
        format: the format's name.
        value: the value, as FP32.
        becomes: what it becomes: infinite or NaN where it is too large and the format has such.
        saturated: what it becomes where the kernel saturates instead.
        overflow: how a value that is too large shows; empty where it is not too large.
    """

    format: str
    value: float
    becomes: float
    saturated: float
    overflow: Literal["", "inf", "nan", "saturates"]


def read_values(texts: Sequence[str], *, field: str) -> Floats:
    """Numbers as people write them, rounded to FP32.

    Raises:
        InputError: one is no finite number of FP32, or there are none or too many.
    """
    import numpy as np

    if not 0 < len(texts) <= MOST_VALUES:
        problem = "are too many values" if texts else "needs a value"
        raise InputError(
            field=field,
            value=len(texts) or "",
            problem=problem,
            accepted=f"1 to {MOST_VALUES} numbers",
        )
    return np.array([_number(text, field) for text in texts], dtype=np.float32).astype(np.float64)


def _number(text: str, field: str) -> float:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    if abs(value) <= _LARGEST:
        return value
    problem = "is not a finite number" if not math.isfinite(value) else "is past the range of FP32"
    raise InputError(
        field=field, value=text, problem=problem, accepted="a number such as 448.1 or 1e-8"
    )


def cast(values: Floats, number_format: DType) -> tuple[Cast, ...]:
    """What each value becomes in a format; in a block format, beside the others.

    Raises:
        MissingPartError: ml_dtypes is not installed.
    """
    if number_format.block:
        return _in_blocks(values, number_format)
    became, kept = round_to(values, number_format), saturated(values, number_format)
    return tuple(
        Cast(
            format=number_format.name,
            value=value,
            becomes=after,
            saturated=most,
            overflow=_overflow(value, after, number_format),
        )
        for value, after, most in zip(values.tolist(), became.tolist(), kept.tolist(), strict=True)
    )


def _in_blocks(values: Floats, number_format: DType) -> tuple[Cast, ...]:
    return tuple(
        Cast(
            format=number_format.name,
            value=value,
            becomes=after,
            saturated=after,
            overflow="saturates"
            if abs(value) > number_format.overflows_at * block.scale > 0
            else "",
        )
        for block in cast_blocks(values, number_format)
        for value, after in zip(block.values, block.becomes, strict=True)
    )


def _overflow(
    value: float, after: float, number_format: DType
) -> Literal["", "inf", "nan", "saturates"]:
    low = number_format.overflows_at + (not number_format.exponent)  # int8 goes down to -128
    if math.isnan(after):
        return "nan"
    if math.isinf(after):
        return "inf"
    if number_format.specials == "none" and not -low <= value <= number_format.overflows_at:
        return "saturates"
    return ""
