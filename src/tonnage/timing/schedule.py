"""One run's pipeline replayed: when each pass of each stage runs, and what of it is compute."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import total
from tonnage.cluster import Cluster
from tonnage.ledger import StageLedger
from tonnage.plan import Setting
from tonnage.plan.schedule import settled
from tonnage.timing.efficiency import STATED, Efficiency
from tonnage.timing.kernel import rates
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.replay import PassCost, Span, replay, seconds
from tonnage.timing.stage import StageTime, chunk_ledger, layer_times, stage_time


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A step's passes, of all stages.

    Attributes:
        spans: each pass, with its stage and when it runs; in seconds from the step's start.
        microbatches: how many a stage was replayed with: enough for what repeats.
        seconds: when the last of these passes ends.
        step_seconds: the same for all micro-batches: the slowest stage takes the rest one by one.
        form_seconds: what the closed form says of that.
        exposed: by stage, the share of its passes that is communication in the open.
    """

    spans: tuple[Span, ...]
    microbatches: int
    seconds: float
    step_seconds: float
    form_seconds: float
    exposed: tuple[float, ...]

    @property
    def gap(self) -> float:
        """Closed form over replay, less 1."""
        return self.form_seconds / self.step_seconds - 1.0


def replay_run(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    cluster: Cluster,
    efficiency: Efficiency = STATED,
) -> Replayed:
    """Replay one run's pipeline, with the seconds of each stage's own chunks.

    Sends between stages are among a pass's own seconds, as in the closed form.

    Raises:
        InputError: the device has no published peak for the recipe's format.
    """
    plan, rate = setting.plan, rates(setting, cluster.device, efficiency)
    layers = layer_times(setting, ledgers, cluster, rate)
    stages = [stage_time(setting, ledger, layers, cluster, rate) for ledger in ledgers]
    costs = [
        [
            _cost(stage_time(setting, chunk_ledger(ledger, c), layers, cluster, rate, which=(c,)))
            for c in range(len(ledger.stage.chunks))
        ]
        for ledger in ledgers
    ]
    steps = int(setting.grad_acc)
    short = settled(plan, steps)
    spans = replay(plan, costs, short)
    found = seconds(spans)
    slowest = max(float(stage.microbatch) for stage in stages)
    form = pipeline_time(
        plan,
        [stage.microbatch for stage in stages],
        steps,
        [stage.ahead for stage in stages],
        weight_seconds=[stage.late for stage in stages],
    )
    each = short / steps * float(setting.turns)
    return Replayed(
        spans=tuple(spans),
        microbatches=short,
        seconds=found,
        step_seconds=found + (float(setting.turns) - each) * slowest,
        form_seconds=float(form.busy + form.bubble),
        exposed=tuple(_exposed(stage) for stage in stages),
    )


def _cost(time: StageTime) -> PassCost:
    ahead = float(time.ahead)
    return PassCost(forward=ahead, backward=float(time.microbatch) - ahead, weight=float(time.late))


def _exposed(stage: StageTime) -> float:
    return float(total(stage.exposed.values())) / max(float(stage.microbatch), 1e-12)
