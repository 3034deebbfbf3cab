"""What the allocator holds on each stage: found by replay where that decides, else a share."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, largest, maximum, minimum, total, where
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.loss import known
from tonnage.ledger.piece import by_piece
from tonnage.memory.outside import reserved_bytes
from tonnage.memory.peak import CATEGORIES, StageMemory
from tonnage.memory.replay import STEPS, replay
from tonnage.memory.schedule import shortened
from tonnage.plan import Setting
from tonnage.plan.schedule import SPLITS
from tonnage.timing.clocks import QUEUE, Costs

PLAYS = 2000
"""Passes over single layers that an estimate replays at most; a thousand take about 0.17 s.
The fullest stage is always replayed, where it is longer than that for a step less."""


PASSING = ("activations", "logits_and_loss", "temporaries")
"""Categories of what comes and goes within a step."""

GAPS = 0.5
"""Free blocks that nothing fits into, over what comes and goes, each category at its most: at
most 0.26 in replays of 700 stages of seven models under nanotron without collectives."""

SEGMENTS = 64 * 2**20
"""Segments of 2 and 20 MiB that are begun and not filled, in both pools. Unit: bytes."""


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
    if not replays(setting):
        return tuple(held)
    allocated = [int(memory.peak.allocated) for memory in found]
    for stage, steps in _played(setting, ledgers, allocated):
        played = replay(setting, ledgers, stage, costs, capacity, steps)
        held[stage] = max(played.reserved, allocated[stage])
    return tuple(held)


def reserved_bound(setting: Setting, ledger: StageLedger, memory: StageMemory) -> Number:
    """Reserved bytes of a stage in closed form, never below the figure of `reserved_by_stage`.

    Where a share decides, it is that figure. A replay can find more. Categories are largest at
    different instants, and what comes and goes within a step leaves gaps (`GAPS`). What a
    collective has touched comes back only when the host sees that it is over, and the host can
    be a full queue of launches ahead (`tonnage.timing.clocks.QUEUE`): until then whatever is
    asked for next is new. Gaps are bounded by what was seen, and not by proof.
    """
    if not replays(setting):
        return reserved_bytes(memory.held)
    most = {n: largest(moment.categories[n] for moment in memory.instants) for n in CATEGORIES}
    gaps = ceil_div(round(GAPS * 100) * total(most[name] for name in PASSING), 100) + SEGMENTS
    bound = total(most.values()) + gaps + _waiting(setting, ledger)
    return maximum(bound, reserved_bytes(memory.held))


def _waiting(setting: Setting, ledger: StageLedger) -> Number:
    """All that waits for collectives at the most: what a full queue touches, or a whole step."""
    counts = ledger.stage.kinds()
    late = [(touched_late(setting, ops), counts[layer]) for layer, ops in ledger.layers.items()]
    ends = [touched_late(setting, end) for end in (ledger.embedding, ledger.head) if end]
    touched = total(end.bytes for end in ends)
    entries = sum(count * each.entries for each, count in late) + sum(end.entries for end in ends)
    # A queue is so many layers, and the ends once for each micro-batch that is in it.
    queue = largest(ceil_div(QUEUE * each.bytes, each.entries) for each, _ in late)
    queue = queue + (QUEUE // max(entries, 1) + 2) * touched
    step = touched + total(count * each.bytes for each, count in late)
    return minimum(queue, setting.grad_acc * step)


@dataclass(frozen=True, kw_only=True)
class Late:
    """What a layer's passes leave to wait for collectives.

    Attributes:
        bytes: storages that a collective reads or writes, once each.
        entries: in the queue of launches, at the least.
    """

    bytes: Number
    entries: int


@by_piece()
def touched_late(setting: Setting, operations: Operations) -> Late:
    """Storages that collectives touch in a layer's passes, and the launches of these.

    Forward those that the collective reads and writes, backward their gradients; forward once
    more where all of it is recomputed.
    """
    forwards = 2 if setting.plan.recompute == "full" else 1
    sends = [op for op in operations if op.collectives]
    whole = {t.name: t.bytes for op in sends for t in (*op.inputs, *op.outputs)}
    touched = where(setting.tp > 1, total(whole.values()), 0)
    return Late(bytes=(forwards + 1) * touched, entries=(forwards + 1) * len(operations))


def replays(setting: Setting) -> bool:
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
    fullest = max(range(len(ledgers)), key=lambda stage: allocated[stage])
    chosen: list[tuple[int, int]] = []
    plays = 0
    for stage in sorted({0, fullest, len(ledgers) - 1}, key=lambda stage: -allocated[stage]):
        order = shortened(setting.plan, stage, int(setting.grad_acc))
        layers = len(ledgers[stage].stage.layers) / setting.plan.vpp + 1
        plays += int(STEPS * len(order) * layers)
        if plays <= PLAYS:
            chosen.append((stage, STEPS))
        elif not chosen:
            chosen.append((stage, STEPS - 1))
    return chosen
