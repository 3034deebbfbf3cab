"""Closed forms of pipeline schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.algebra import Number, largest, maximum, total
from tonnage.plan import Plan


@dataclass(frozen=True, kw_only=True)
class PipelineTime:
    """Seconds of a step's pipeline.

    Attributes:
        busy: the slowest stage's own work.
        bubble: its idle time.
    """

    busy: Number
    bubble: Number


def pipeline_time(
    plan: Plan,
    stage_seconds: Sequence[Number],
    microbatches: Number,
    forward_seconds: Sequence[Number] | None = None,
) -> PipelineTime:
    """Time of GPipe, 1F1B or interleaved 1F1B with unequal stages.

    The slowest stage works through all micro-batches; before its first and after its last
    it waits for one pass through the others, which interleaving cuts into ``vpp`` pieces
    (arXiv 2104.04473, section 2.2). Equal stages give the bubble ``(p-1)/(v·m)`` of the work.
    Under 1F1B a slow stage early in the pipeline hides some of what follows it.

    Args:
        plan: for the schedule, pp and vpp.
        stage_seconds: forward and backward of one micro-batch, by stage.
        microbatches: micro-batches of a step.
        forward_seconds: forward alone; None: nothing that follows a stage is hidden.
    """
    busy = microbatches * largest(stage_seconds)
    if forward_seconds is not None and plan.schedule == "1f1b":
        return PipelineTime(
            busy=busy,
            bubble=_flush(stage_seconds, forward_seconds, microbatches) - busy,
        )
    rest = total(stage_seconds) - largest(stage_seconds)
    return PipelineTime(busy=busy, bubble=rest / plan.vpp)


def _flush(both: Sequence[Number], forward: Sequence[Number], microbatches: Number) -> Number:
    """The longest of the stages' own times under 1F1B.

    A stage waits for the first micro-batch to reach it, and for the last to go back. What
    follows it costs it twice: the first micro-batch's way there and back, less the forwards
    it makes in the meantime, and the last one's, less the backwards still due.
    """
    times = []
    for stage, (work, ahead) in enumerate(zip(both, forward, strict=True)):
        after = total(both[stage + 1 :])
        due = len(both) - 1 - stage
        idle = maximum(after - due * ahead, 0.0) + maximum(after - due * (work - ahead), 0.0)
        times.append(total(both[:stage]) + microbatches * work + idle)
    return largest(times)
