"""What the allocator holds on each stage: found by replay where that decides, else a share."""

from __future__ import annotations

from tonnage.ledger import StageLedger
from tonnage.ledger.loss import known
from tonnage.memory.outside import reserved_bytes
from tonnage.memory.peak import StageMemory
from tonnage.memory.replay import STEPS, replay
from tonnage.memory.schedule import shortened
from tonnage.plan import Setting
from tonnage.plan.schedule import SPLITS
from tonnage.timing.clocks import Costs

PLAYS = 2000
"""Passes over single layers that an estimate replays at most; a thousand take about 0.17 s.
The fullest stage is always replayed, where it is longer than that for a step less."""


def reserved_by_stage(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    found: tuple[StageMemory, ...],
    costs: Costs,
    capacity: int,
) -> tuple[int, ...]:
    """Reserved bytes of every stage.

    Replayed are the stage with the largest tensors and, where that is not long already, the
    first (the most micro-batches in flight) and the last (logits and loss); the others follow
    by their share, and are smaller.

    Args:
        setting: the run.
        ledgers: every stage.
        found: the closed form of every stage.
        costs: of kernels and collectives.
        capacity: bytes that the device has for the allocator.
    """
    held = [int(reserved_bytes(memory.held)) for memory in found]
    if not _replays(setting):
        return tuple(held)
    allocated = [int(memory.peak.allocated) for memory in found]
    for stage, steps in _played(setting, ledgers, allocated):
        played = replay(setting, ledgers, stage, costs, capacity, steps)
        held[stage] = max(played.reserved, allocated[stage])
    return tuple(held)


def _replays(setting: Setting) -> bool:
    """Whether the runtime is one to replay, and the plan has nothing that the replay lacks."""
    plan = setting.plan
    lacking = (
        plan.offload_parameters
        or plan.optimizer_in_backward
        or plan.lora_rank is not None
        or setting.gathers
        or setting.architecture.is_moe
        or plan.schedule in SPLITS
        or not known(setting)
    )
    return setting.runtime.reserved == "replay" and not lacking


def _played(
    setting: Setting, ledgers: tuple[StageLedger, ...], allocated: list[int]
) -> list[tuple[int, int]]:
    """The stages to replay, the fullest first, and for how many steps."""
    largest = max(range(len(ledgers)), key=lambda stage: allocated[stage])
    chosen: list[tuple[int, int]] = []
    plays = 0
    for stage in sorted({0, largest, len(ledgers) - 1}, key=lambda stage: -allocated[stage]):
        order = shortened(setting.plan, stage, int(setting.grad_acc))
        layers = len(ledgers[stage].stage.layers) / setting.plan.vpp + 1
        plays += int(STEPS * len(order) * layers)
        if plays <= PLAYS:
            chosen.append((stage, STEPS))
        elif not chosen:
            chosen.append((stage, STEPS - 1))
    return chosen
