"""Closed forms of pipeline schedules."""

from __future__ import annotations

import operator
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
    counts: Sequence[int] | None = None,
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
        counts: how many neighbouring stages each figure stands for; None: one.
    """
    counts = counts or [1] * len(stage_seconds)
    busy = microbatches * largest(stage_seconds)
    if forward_seconds is not None and plan.schedule == "1f1b":
        return PipelineTime(
            busy=busy,
            bubble=_flush(stage_seconds, forward_seconds, counts, microbatches) - busy,
        )
    rest = total(map(operator.mul, counts, stage_seconds)) - largest(stage_seconds)
    return PipelineTime(busy=busy, bubble=rest / plan.vpp)


def _flush(
    both: Sequence[Number],
    forward: Sequence[Number],
    counts: Sequence[int],
    microbatches: Number,
) -> Number:
    """The longest of the stages' own times under 1F1B.

    A stage waits for the first micro-batch to reach it, and for the last to go back. What
    follows it costs it twice: the first micro-batch's way there and back, less the forwards
    it makes in the meantime, and the last one's, less the backwards still due.

    Along a run of equal stages that time is a sum of maxima of linear functions of the place,
    so it is largest at one of the run's ends.
    """
    times = []
    works = list(map(operator.mul, counts, both))
    before: Number = 0.0
    for run, (work, ahead, count) in enumerate(zip(both, forward, counts, strict=True)):
        behind, due = total(works[run + 1 :]), sum(counts[run + 1 :])
        for inside in {0, count - 1}:
            after, left = behind + inside * work, due + inside
            idle = maximum(after - left * ahead, 0.0) + maximum(after - left * (work - ahead), 0.0)
            times.append(before + (count - 1 - inside) * work + microbatches * work + idle)
        before = before + works[run]
    return largest(times)
