"""Frozen linear weights in 4 or 8 bits: packed elements, and the scales beside them."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div
from tonnage.ledger.operation import Weight

BLOCK = 64
"""Elements that share a scale in bitsandbytes' 4-bit formats."""

NESTED_BLOCK = 256
"""Scales that share a second scale under double quantisation (arXiv 2305.14314, section 3)."""

GROUP = 128
"""Input features that share a scale and a zero point in most GPTQ checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Bytes of one quantised weight.

    Attributes:
        packed: elements and packed zero points, which a sharding engine shards.
        beside: scales and indices: plain tensors, which it leaves on every rank.
    """

    packed: Number
    beside: Number


def stored(base: str, weight: Weight) -> Stored:
    """The bytes of a weight in a base's format.

    * ``nf4``: 4 bits, an fp32 scale a block of 64 (bitsandbytes).
    * ``nf4-dq``: the scales in 8 bits, and an fp32 scale for 256 of them.
    * ``int8``: 8 bits, an fp32 scale an output row (bitsandbytes ``Linear8bitLt``).
    * ``gptq4``: 4 bits; fp16 scale and 4-bit zero point an output, an index an input feature.
    * ``gptq4-g128``: the same, scales and zero points for every 128 input features (AutoGPTQ).
    """
    numel = weight.numel
    wide_in, wide_out = weight.shape[0], weight.copies * weight.shape[1]
    blocks = ceil_div(numel, BLOCK)
    if base == "nf4":
        return Stored(packed=ceil_div(numel, 2), beside=4 * blocks)
    if base == "nf4-dq":
        return Stored(packed=ceil_div(numel, 2), beside=blocks + 4 * ceil_div(blocks, NESTED_BLOCK))
    if base == "int8":
        return Stored(packed=numel, beside=4 * wide_out)
    groups = ceil_div(wide_in, GROUP) if base == "gptq4-g128" else 1
    points = groups * wide_out
    return Stored(
        packed=ceil_div(numel, 2) + ceil_div(points, 2),
        beside=2 * points + 4 * wide_in * weight.copies,
    )
