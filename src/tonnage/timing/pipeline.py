"""Closed forms of pipeline schedules."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, largest, total
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


def pipeline_time(plan: Plan, stage_seconds: list[Number], microbatches: Number) -> PipelineTime:
    """Time of GPipe, 1F1B or interleaved 1F1B with unequal stages.

    The slowest stage works through all micro-batches; before its first and after its last
    it waits for one pass through the others, which interleaving cuts into ``vpp`` pieces
    (arXiv 2104.04473, section 2.2). Equal stages give the bubble ``(p-1)/(v·m)`` of the work.

    Args:
        plan: for vpp.
        stage_seconds: forward and backward of one micro-batch, by stage.
        microbatches: micro-batches of a step.
    """
    slowest = largest(stage_seconds)
    rest = total(stage_seconds) - slowest
    return PipelineTime(busy=microbatches * slowest, bubble=rest / plan.vpp)
