"""What the allocator holds on each stage: found by replay where that decides, else a share."""

from __future__ import annotations

from tonnage.ledger import StageLedger
from tonnage.memory.outside import reserved_bytes
from tonnage.memory.replay import replay
from tonnage.plan import Setting
from tonnage.timing.clocks import Costs


def reserved_by_stage(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    allocated: tuple[int, ...],
    costs: Costs,
    capacity: int,
) -> tuple[int, ...]:
    """Reserved bytes of every stage.

    Replayed are the first stage (the most micro-batches in flight), the last (logits and
    loss) and the one with the largest tensors; the others follow by their share, and are
    smaller.

    Args:
        setting: the run.
        ledgers: every stage.
        allocated: the peak of each stage's tensors, in closed form.
        costs: of kernels and collectives.
        capacity: bytes that the device has for the allocator.
    """
    by_share = [int(reserved_bytes(size)) for size in allocated]
    if setting.runtime.reserved == "share":
        return tuple(by_share)
    largest = max(range(len(allocated)), key=lambda stage: allocated[stage])
    for stage in {0, largest, len(allocated) - 1}:
        found = replay(setting, ledgers, stage, costs, capacity)
        by_share[stage] = max(found.reserved, allocated[stage])
    return tuple(by_share)
