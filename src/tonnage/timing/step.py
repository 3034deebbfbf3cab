"""Seconds of a step: compute, exposed communication, bubble, optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, largest, maximum, total
from tonnage.cluster import Cluster
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.flops import layers_recomputed
from tonnage.ledger.layer import recomputed_modules
from tonnage.ledger.optimizer import step_traffic
from tonnage.plan import Setting
from tonnage.timing.efficiency import Efficiency
from tonnage.timing.kernel import Rates, backward_seconds, forward_seconds, rates
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.traffic import (
    Traffic,
    data_parallel_traffic,
    layer_traffic,
    pipeline_traffic,
)

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
)


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """One stage's seconds for one micro-batch, and what it sends in a step.

    Attributes:
        forward: compute of the forward pass.
        backward: compute of the backward pass, without recomputation.
        recompute: forward work that recomputation repeats.
        exposed: communication inside a micro-batch that nothing hides, by part.
        traffic: all collectives of a step.
    """

    forward: Number
    backward: Number
    recompute: Number
    exposed: dict[str, Number]
    traffic: tuple[Traffic, ...]

    @property
    def microbatch(self) -> Number:
        """Seconds of one micro-batch, forward and backward."""
        return self.forward + self.backward + self.recompute + total(self.exposed.values())


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one step, and the parts that sum to it."""

    seconds: Number
    parts: dict[str, Number]
    stages: tuple[StageTime, ...]


_AXIS_PARTS = {
    "tp": "tensor_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "etp": "expert_parallel",
    "pp": "pipeline_sends",
}


def step_time(
    setting: Setting, ledgers: tuple[StageLedger, ...], cluster: Cluster, efficiency: Efficiency
) -> StepTime:
    """The time of a step under stated efficiencies.

    Raises:
        InputError: the device has no published peak for the recipe's format.
    """
    rate = rates(setting, cluster.device, efficiency)
    stages = tuple(_stage_time(setting, ledger, cluster, efficiency, rate) for ledger in ledgers)
    pipeline = pipeline_time(setting.plan, [s.microbatch for s in stages], setting.grad_acc)
    slowest = max(stages, key=lambda stage: float(stage.microbatch))
    m = setting.grad_acc
    parts = dict.fromkeys(PARTS, 0.0)
    parts["compute"] = m * (slowest.forward + slowest.backward)
    parts["recompute"] = m * slowest.recompute
    parts.update({part: m * seconds for part, seconds in slowest.exposed.items()})
    parts["pipeline_bubble"] = pipeline.bubble
    parts["data_parallel"] = largest(
        _exposed_data_parallel(setting, ledger, stage, cluster, efficiency)
        for ledger, stage in zip(ledgers, stages, strict=True)
    )
    parts["optimizer"] = largest(_optimizer_seconds(setting, ledger, rate) for ledger in ledgers)
    return StepTime(seconds=total(parts.values()), parts=parts, stages=stages)


def _stage_time(
    setting: Setting, ledger: StageLedger, cluster: Cluster, efficiency: Efficiency, rate: Rates
) -> StageTime:
    counts = ledger.stage.kinds()
    again = _recomputed_layers(setting, ledger)
    ends = (*ledger.embedding, *ledger.head)
    forward = total(forward_seconds(setting, rate, op) for op in ends)
    backward = total(backward_seconds(setting, rate, op) for op in ends)
    recompute: Number = 0.0
    traffic = layer_traffic(setting, ends, setting.grad_acc, rebuilt=False)
    for layer, operations in ledger.layers.items():
        once = total(forward_seconds(setting, rate, op) for op in operations)
        forward = forward + counts[layer] * once
        backward = backward + counts[layer] * total(
            backward_seconds(setting, rate, op) for op in operations
        )
        recompute = (
            recompute
            + again[layer] * once
            + counts[layer]
            * total(forward_seconds(setting, rate, op) for op in _selected(setting, operations))
        )
        kept = counts[layer] - again[layer]
        for count, rebuilt in ((kept, False), (again[layer], True)):
            if count:
                traffic += layer_traffic(
                    setting, operations, count * setting.grad_acc, rebuilt=rebuilt
                )
    traffic += pipeline_traffic(setting, ledger)
    exposed = _exposed(setting, traffic, cluster, efficiency)
    return StageTime(
        forward=forward,
        backward=backward,
        recompute=recompute,
        exposed=exposed,
        traffic=(*traffic, *data_parallel_traffic(setting, ledger)),
    )


def _selected(setting: Setting, operations: Operations) -> Operations:
    modules = recomputed_modules(setting)
    return tuple(op for op in operations if modules.intersection(op.modules))


def _recomputed_layers(setting: Setting, ledger: StageLedger) -> dict[object, int]:
    """Layers of each kind that full recomputation runs again on this stage."""
    again = layers_recomputed(setting, (ledger.stage,))
    return {layer: again.get(layer, 0) for layer in ledger.layers}


def _exposed(
    setting: Setting, traffic: Iterable[Traffic], cluster: Cluster, efficiency: Efficiency
) -> dict[str, Number]:
    """Communication of one micro-batch that nothing hides, by part."""
    exposed: dict[str, Number] = dict.fromkeys(_AXIS_PARTS.values(), 0.0)
    for item in traffic:
        seconds = item.seconds(cluster, efficiency) / setting.grad_acc
        if item.axis.name == "tp":
            seconds = seconds * (1.0 - setting.runtime.tp_overlap)
        part = _AXIS_PARTS[item.axis.name]
        exposed[part] = exposed[part] + seconds
    return exposed


def _exposed_data_parallel(
    setting: Setting,
    ledger: StageLedger,
    stage: StageTime,
    cluster: Cluster,
    efficiency: Efficiency,
) -> Number:
    """Gradient and parameter traffic beyond the compute that it can hide behind.

    What happens once a step hides behind one micro-batch's pass, what happens in every
    micro-batch behind each.
    """
    exposed: Number = 0.0
    habits = setting.runtime
    hides = {"forward": habits.overlap_param_gather, "backward": habits.overlap_grad_reduce}
    windows = {"forward": stage.forward, "backward": stage.backward + stage.recompute}
    for phase in ("forward", "backward"):
        items = [t for t in data_parallel_traffic(setting, ledger) if t.collective.phase == phase]
        busy = total(item.seconds(cluster, efficiency) for item in items)
        passes = largest(item.count for item in items)
        hidden = passes * windows[phase] if hides[phase] else 0.0
        exposed = exposed + maximum(busy - hidden, 0.0)
    return exposed


def _optimizer_seconds(setting: Setting, ledger: StageLedger, rate: Rates) -> Number:
    """The step's memory traffic over bandwidth, on this rank's shard of the states."""
    sums: dict[str, Number] = {"dense": 0, "expert": 0}
    for weight, count in ledger.weights():
        sums[weight.group] = sums[weight.group] + count * step_traffic(setting, weight)
    if setting.zero >= 1:
        shares = (setting.shard, setting.expert_shard)
        sums = {
            group: ceil_div(sums[group], share)
            for group, share in zip(("dense", "expert"), shares, strict=True)
        }
    return (sums["dense"] + sums["expert"]) / rate.memory
