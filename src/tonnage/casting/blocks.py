"""Blocks of elements that share a scale, and what the largest of them does to the others.

MX: the scale is a power of two (E8M0), that of the block's largest element less that of the
largest element of the format, so that what falls between the format's largest and the next
power of two saturates (OCP Microscaling Formats v1.0, section 6.3).

NVFP4: the block's scale is an E4M3 number, which takes its largest element to 6; one FP32
scale a tensor keeps those scales in the range of E4M3, its largest at 448 ("Pretraining
Large Language Models with NVFP4", arXiv 2509.25149, section 2 and the appendix on
quantisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonnage.casting.elements import round_to, saturated
from tonnage.dtype import DType, dtype

if TYPE_CHECKING:
    from tonnage.casting.elements import Floats

_E8M0 = 127
"""Exponents of an E8M0 scale go from minus to plus this."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive values that share a scale.

    Attributes:
        format: the format's name.
        first: which value of the tensor is the block's first.
        scale: what each element is multiplied by, the tensor's scale included; 0 where it
            is too small for the format of scales, and takes the whole block to 0.
        tensor_scale: the FP32 scale of the whole tensor; None where the format has none.
        values: the values, as FP32.
        becomes: what they become.
        alone: what each would become if it were alone in its tensor.
    """

    format: str
    first: int
    scale: float
    tensor_scale: float | None
    values: tuple[float, ...]
    becomes: tuple[float, ...]
    alone: tuple[float, ...]


def cast_blocks(values: Floats, number_format: DType) -> tuple[Block, ...]:
    """Values as a tensor of a block format.

    Raises:
        MissingPartError: ml_dtypes is not installed.
    """
    size = number_format.block
    whole = _tensor_scale(values, number_format)
    alone = [_alone(values[index : index + 1], number_format) for index in range(len(values))]
    blocks = []
    for first in range(0, len(values), size):
        part = values[first : first + size]
        scale = _block_scale(part, number_format, whole)
        blocks.append(
            Block(
                format=number_format.name,
                first=first,
                scale=scale,
                tensor_scale=whole,
                values=tuple(part.tolist()),
                becomes=tuple(_scaled(part, number_format, scale).tolist()),
                alone=tuple(alone[first : first + size]),
            )
        )
    return tuple(blocks)


def _alone(value: Floats, number_format: DType) -> float:
    scale = _block_scale(value, number_format, _tensor_scale(value, number_format))
    return float(_scaled(value, number_format, scale)[0])


def _scaled(part: Floats, number_format: DType, scale: float) -> Floats:
    return saturated(part / scale, number_format) * scale if scale else part * 0.0


def _tensor_scale(values: Floats, number_format: DType) -> float | None:
    if number_format.name != "nvfp4":
        return None
    most = number_format.largest * dtype("fp8_e4m3").largest
    return float(round_to(abs(values).max(keepdims=True) / most, dtype("fp32"))[0])


def _block_scale(part: Floats, number_format: DType, whole: float | None) -> float:
    largest = abs(part).max(keepdims=True)
    if whole is None:
        return _power_of_two(float(largest[0]), number_format)
    if whole == 0.0:
        return 0.0
    return float(saturated(largest / number_format.largest / whole, dtype("fp8_e4m3"))[0]) * whole


def _power_of_two(largest: float, number_format: DType) -> float:
    if largest == 0.0:
        return 2.0**-_E8M0
    exponent = math.frexp(largest)[1] - math.frexp(number_format.largest)[1]
    return float(2.0 ** max(-_E8M0, min(_E8M0, exponent)))
