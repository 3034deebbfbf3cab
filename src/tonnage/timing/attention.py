"""Seconds of a flash-attention kernel inside a training step."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, where
from tonnage.ledger.operation import Phase
from tonnage.timing import constants

BLOCK = 128
"""Queries of one head that a multiprocessor works on at a time."""


@dataclass(frozen=True, kw_only=True)
class FlashRates:
    """What a device does in a flash kernel.

    Attributes:
        flops: FLOP/s that the shares are of.
        forward: share that the forward kernel reaches with heads of 128.
        backward: the same of the backward kernel.
        memory: bytes per second of its inputs and outputs.
        multiprocessors: how many work on blocks of queries at once.
    """

    flops: float
    forward: float
    backward: float
    memory: float
    multiprocessors: int

    def share(self, width: Number, phase: Phase) -> Number:
        """Share of ``flops`` on long sequences, for query heads of some width.

        Each score costs its two products, which go with the head's width, and a softmax,
        which does not: ``share ~ d / (d + d0)``.
        """
        wide = self.forward if phase == "forward" else self.backward
        return wide * (1 + constants.FLASH_HEAD / 128) / (1 + constants.FLASH_HEAD / width)


def flash_shares(generation: str, version: int) -> tuple[float, float]:
    """Shares of dense peak of both kernels with heads of 128, forward and backward.

    Args:
        generation: the device's (`tonnage.timing.efficiency.generation`).
        version: the kernel's: 1, 2, or 3 (FlashAttention-3 and cuDNN's).
    """
    index = min(max(version, 1), 3) - 1
    return constants.FLASH_FORWARD[generation][index], constants.FLASH_BACKWARD[generation][index]


def flash_seconds(
    rates: FlashRates,
    phase: Phase,
    *,
    flops: Number,
    moved: Number,
    width: Number,
    rows: Number | None,
) -> Number:
    """Seconds of one pass of a flash kernel, by its share of peak, with its inputs and outputs.

    Args:
        rates: the device's.
        phase: forward or backward, whose FLOPs are 2.5 times the forward's.
        flops: of this pass.
        moved: bytes of its inputs and outputs; backward moves them twice.
        width: of a query head.
        rows: queries of all heads and sequences; None: enough to fill every wave.
    """
    seconds = flops / (rates.share(width, phase) * rates.flops)
    if rows is not None:
        seconds = seconds * wave_loss(rows / BLOCK, rates.multiprocessors)
    return seconds + (moved if phase == "forward" else 2 * moved) / rates.memory


def wave_loss(blocks: Number, multiprocessors: int) -> Number:
    """Time over that of perfectly spread work: the last wave is not full.

    Past four waves blocks of unequal length even out.
    """
    waves = blocks / multiprocessors
    return where(waves < 4, ceil_div(blocks, multiprocessors) / waves, 1.0)
