"""Seconds of a step: compute, exposed communication, bubble, optimizer, host."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, largest, total
from tonnage.cluster import Cluster
from tonnage.ledger import StageLedger
from tonnage.plan import Setting
from tonnage.timing.efficiency import STATED, Efficiency
from tonnage.timing.kernel import rates
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.replicas import exposed_data_parallel, optimizer_seconds
from tonnage.timing.stage import StageTime, layer_times, stage_time

PARTS = (
    "compute",
    "recompute",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "pipeline_sends",
    "pipeline_bubble",
    "data_parallel",
    "optimizer",
    "host",
)


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one step, and the parts that sum to it."""

    seconds: Number
    parts: dict[str, Number]
    stages: tuple[StageTime, ...]


def step_time(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    cluster: Cluster,
    efficiency: Efficiency = STATED,
) -> StepTime:
    """The time of a step.

    Raises:
        InputError: the device has no published peak for the recipe's format.
    """
    rate = rates(setting, cluster.device, efficiency)
    layers = layer_times(setting, ledgers, cluster, rate)
    stages = tuple(stage_time(setting, ledger, layers, cluster, rate) for ledger in ledgers)
    pipeline = pipeline_time(
        setting.plan,
        [stage.microbatch for stage in stages],
        setting.grad_acc,
        [stage.ahead for stage in stages],
        [stage.late for stage in stages],
    )
    slowest = max(stages, key=lambda stage: float(stage.microbatch))
    m = setting.turns
    parts = dict.fromkeys(PARTS, 0.0)
    parts["compute"] = m * (slowest.forward + slowest.backward)
    parts["recompute"] = m * slowest.recompute
    parts.update({part: m * seconds for part, seconds in slowest.exposed.items()})
    parts["host"] = m * slowest.host
    parts["pipeline_bubble"] = pipeline.bubble
    parts["data_parallel"] = largest(
        exposed_data_parallel(setting, ledger, stage, cluster)
        for ledger, stage in zip(ledgers, stages, strict=True)
    )
    parts["optimizer"] = largest(optimizer_seconds(setting, ledger, rate) for ledger in ledgers)
    return StepTime(seconds=total(parts.values()), parts=parts, stages=stages)
