"""Seconds of a step: compute, exposed communication, bubble, optimizer, host, host's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.algebra import Number, largest, maximum, total, where
from tonnage.cluster import Cluster
from tonnage.ledger import StageLedger
from tonnage.plan import Setting, alike
from tonnage.timing.efficiency import STATED, Efficiency
from tonnage.timing.host_memory import exposed_step
from tonnage.timing.kernel import rates
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.replicas import exposed_data_parallel, exposed_units, optimizer_seconds
from tonnage.timing.stage import StageTime, layer_times, stage_time
from tonnage.timing.verification import barrier_seconds

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
    "offload",
)


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one step, and the parts that sum to it.

    Attributes:
        seconds: of the step.
        after: those that no micro-batch's pass has: the exchange of replicas, the optimizer, and
            copies of their parameters, gradients and states.
        parts: all of them, by name.
        stages: each stage's seconds for one micro-batch.
    """

    seconds: Number
    after: Number
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
    runs = alike(tuple(ledger.stage for ledger in ledgers))
    counts = [len(run) for run in runs]
    first = [ledgers[run.start] for run in runs]
    layers = layer_times(setting, first, cluster, rate)
    stages = [stage_time(setting, ledger, layers, cluster, rate) for ledger in first]
    pipeline = pipeline_time(
        setting.plan,
        [stage.microbatch for stage in stages],
        setting.grad_acc,
        [stage.ahead for stage in stages],
        counts,
        [stage.late for stage in stages],
    )
    parts = _slowest(setting, stages)
    parts["host"] = parts["host"] + barrier_seconds(setting, cluster)
    parts["pipeline_bubble"] = pipeline.bubble
    parts["data_parallel"] = largest(
        exposed_data_parallel(setting, ledger, stage, cluster)
        for ledger, stage in zip(first, stages, strict=True)
    )
    steps = [optimizer_seconds(setting, ledger, rate) for ledger in first]
    parts["optimizer"] = largest(steps)
    states = largest(
        exposed_units(setting, ledger, stage, cluster)
        + exposed_step(setting, ledger, cluster, step)
        for ledger, stage, step in zip(first, stages, steps, strict=True)
    )
    parts["offload"] = parts["offload"] + states
    every = (stage for stage, count in zip(stages, counts, strict=True) for _ in range(count))
    return StepTime(
        seconds=total(parts.values()),
        after=parts["data_parallel"] + parts["optimizer"] + states,
        parts=parts,
        stages=tuple(every),
    )


def _slowest(setting: Setting, stages: Sequence[StageTime]) -> dict[str, Number]:
    """The parts of all micro-batches on the slowest stage, plan by plan."""
    longest: Number = -1.0
    chosen: dict[str, Number] = dict.fromkeys(PARTS, 0.0)
    for stage in stages:
        slower = stage.microbatch > longest
        longest = maximum(stage.microbatch, longest)
        own = {
            "compute": stage.forward + stage.backward,
            "recompute": stage.recompute,
            **stage.exposed,
            "host": stage.host,
        }
        chosen.update({part: where(slower, own[part], chosen[part]) for part in own})
    return {part: setting.turns * seconds for part, seconds in chosen.items()}
