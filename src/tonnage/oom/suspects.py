"""Which tensor of a run has the size that an allocator could not find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.ledger import StageLedger
from tonnage.memory.allocator import MIDDLE_SEGMENT, SMALL_SEGMENT, Policy
from tonnage.oom.message import Message
from tonnage.oom.tensors import tensors
from tonnage.oom.verdict import SEGMENTED
from tonnage.plan import Setting

MOST: Final = 32
"""Suspects that are named at most, the closest first."""

MADE_IN: Final = {"recomputation": "forward"}
"""Moments in which what another moment makes is made again."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A tensor that the run makes, of about the size that was asked for.

    Attributes:
        name: what it is.
        moment: when it is allocated.
        bytes: its own bytes.
        segment: what the allocator asks the device for on its behalf.
        stages: pipeline stages that make one.
    """

    name: str
    moment: str
    bytes: int
    segment: int
    stages: tuple[int, ...]


def suspects(
    setting: Setting, ledgers: Iterable[StageLedger], message: Message, moment: str | None
) -> tuple[Suspect, ...]:
    """Tensors whose request is the one that was refused, those of the right moment first.

    A figure is rounded to its last digit, and a request to whole segments: what is within both is
    named.

    Args:
        setting: the run.
        ledgers: every stage.
        message: what was asked for, and by whom.
        moment: what the code was doing, or None.
    """
    tried = message.tried
    segmented = message.backend in SEGMENTED and tried is not None and _whole(tried, message.unit)
    if tried is None or (segmented and tried <= MIDDLE_SEGMENT):
        return ()
    found: dict[tuple[str, str], Suspect] = {}
    for ledger in ledgers:
        stage = ledger.stage.index
        for name, when, size in tensors(setting, ledger):
            asked = Policy.segment_bytes(Policy.round(size)) if segmented else size
            if not _near(asked, tried, message.unit):
                continue
            seen = found.get((name, when))
            found[name, when] = Suspect(
                name=name,
                moment=when,
                bytes=size,
                segment=asked,
                stages=(*seen.stages, stage) if seen and stage not in seen.stages else (stage,),
            )
    wanted = MADE_IN.get(moment or "", moment)
    order = sorted(found.values(), key=lambda each: (each.moment != wanted, tried - each.bytes))
    return tuple(order[:MOST])


def _near(size: int, told: int, unit: int) -> bool:
    """Whether a size is printed as that figure."""
    return abs(size - told) <= unit // 2 + 2


def _whole(tried: int, unit: int) -> bool:
    """Whether a size may be whole segments; PyTorch up to 1.2 asked for the request itself."""
    return _near(-(-(tried - unit // 2) // SMALL_SEGMENT) * SMALL_SEGMENT, tried, unit)
