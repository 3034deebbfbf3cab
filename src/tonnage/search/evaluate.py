"""Memory and time of the plans of a group, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tonnage.algebra import Number, where
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation import Limits
from tonnage.ledger import StageLedger
from tonnage.memory import StageMemory, outside, stage_memory
from tonnage.memory.reserved import reserved_bound
from tonnage.plan import Plan
from tonnage.plan.schedule import SPLITS, streams
from tonnage.search.group import NUMERIC, Group, Weighed
from tonnage.search.slices import Slice, slices
from tonnage.timing.step import PARTS, step_time


def plan_of(group: Group, index: int) -> Plan:
    """One plan of a group, as `tonnage.estimation.estimate` takes it."""
    numbers: dict[str, Any] = {name: int(group.columns[name][index]) for name in NUMERIC}
    shard = numbers.pop("shard")
    gbs = numbers["mbs"] * numbers["grad_acc"] * numbers["dp"]
    hsdp = None if group.plan.hsdp_shard is None else shard
    return dataclasses.replace(group.plan, **numbers, gbs=gbs, hsdp_shard=hsdp)


def evaluate(
    architecture: Architecture, group: Group, cluster: Cluster, limits: Limits | None = None
) -> Weighed:
    """Memory and time of every plan of a group.

    Args:
        architecture: what is trained.
        group: the plans.
        cluster: on what.
        limits: for the efficiency that the time assumes.

    Raises:
        InputError: a choice of the group is impossible, or a figure is not published.
        NotModelledError: it asks for something that is not accounted for.
    """
    efficiency = (limits or Limits()).efficiency
    found = Weighed.empty(len(group))
    for part in slices(architecture, group, cluster):
        _weigh(part, cluster, found)
        timed = step_time(part.setting, part.ledgers, cluster, efficiency)
        found.seconds[part.where] = timed.seconds
        for name in PARTS:
            found.parts[name][part.where] = timed.parts[name]
    return found


def _weigh(part: Slice, cluster: Cluster, found: Weighed) -> None:
    """The memory of the worst stage of some plans, written into their places."""
    beyond = outside(part.setting, cluster.device).bytes
    names = ("allocated", "reserved", "worst_stage")
    worst: dict[str, Number] = {"allocated": 0, "reserved": -1, "worst_stage": 0}
    for ledger, memory in _memories(part):
        reserved = reserved_bound(part.setting, ledger, memory)
        fuller = reserved > worst["reserved"]
        own = (memory.allocated, reserved, memory.stage)
        worst = {n: where(fuller, value, worst[n]) for n, value in zip(names, own, strict=True)}
    for name, value in worst.items():
        getattr(found, name)[part.where] = value
    found.device[part.where] = worst["reserved"] + beyond


def _memories(part: Slice) -> Iterator[tuple[StageLedger, StageMemory]]:
    """The memory of the stages among which the worst is.

    Of stages that hold the same the first has the most micro-batches in flight, and nothing
    else differs; but where a stage keeps a buffer for each micro-batch, those in flight need
    fewer, and where weights' gradients are put off, later stages hold more for these: then
    every stage is weighed.
    """
    plan = part.setting.plan
    if part.setting.runtime.pipeline_buffers == "pair" and plan.schedule not in SPLITS:
        for ledger, _ in part.runs():
            yield ledger, stage_memory(part.setting, ledger)
        return
    # The second half of DualPipe's stages mirrors the first.
    for place, ledger in enumerate(part.ledgers[: len(part.ledgers) // streams(plan)]):
        stage = dataclasses.replace(ledger.stage, index=place)
        each = dataclasses.replace(ledger, stage=stage)
        yield each, stage_memory(part.setting, each)
