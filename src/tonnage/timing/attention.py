"""Seconds of a flash-attention kernel inside a training step."""

from __future__ import annotations

from tonnage.algebra import Number, ceil_div, where
from tonnage.ledger.operation import Phase
from tonnage.timing import constants

BLOCK = 128
"""Queries of one head that a multiprocessor works on at a time."""


def flash_share(generation: str, version: int, width: Number, phase: Phase) -> Number:
    """Share of dense peak that the kernel reaches on long sequences.

    Each score costs its two products, which go with the head's width, and a softmax, which
    does not: ``share ~ d / (d + d0)``.

    Args:
        generation: the device's (`tonnage.timing.efficiency.generation`).
        version: the kernel's: 1, 2, or 3 (FlashAttention-3 and cuDNN's).
        width: of a query head.
        phase: forward or backward.
    """
    table = constants.FLASH_FORWARD if phase == "forward" else constants.FLASH_BACKWARD
    share = table[generation][min(max(version, 1), 3) - 1]
    d0 = constants.FLASH_HEAD
    return share * (1 + d0 / 128) / (1 + d0 / width)


def wave_loss(blocks: Number, multiprocessors: int) -> Number:
    """Time over that of perfectly spread work: the last wave is not full.

    Past four waves blocks of unequal length even out.
    """
    waves = blocks / multiprocessors
    return where(waves < 4, ceil_div(blocks, multiprocessors) / waves, 1.0)
