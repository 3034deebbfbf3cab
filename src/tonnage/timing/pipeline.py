"""Closed forms of pipeline schedules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tonnage.algebra import Number, largest, maximum, minimum, total, where
from tonnage.plan import Plan
from tonnage.plan.schedule import per_chunk, streams


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
    weight_seconds: Sequence[Number] | None = None,
) -> PipelineTime:
    """Time of a schedule with unequal stages.

    * GPipe, interleaved 1F1B: the slowest stage works through all micro-batches; before its
      first and after its last it waits for one pass through the others, which interleaving
      cuts into ``vpp`` pieces (arXiv 2104.04473, section 2.2). Equal stages give the bubble
      ``(p-1)/(v·m)`` of the work.
    * 1F1B, ZB-H1: the longest of the stages' own times (`_flush`, `_zero_bubble`).
    * ZB-V, DualPipe, DualPipeV: equal stages' bubble, summed over the stages but the slowest,
      less what they are faster (`_zbv`, `_dualpipe`).

    Of unequal stages these are lower bounds or close to the replay
    (`tonnage.timing.replay`); tests say how close.

    Args:
        plan: for the schedule, pp and vpp.
        stage_seconds: forward and backward of one micro-batch through all chunks of each stage.
        microbatches: micro-batches of a step.
        forward_seconds: forward alone; None: nothing that follows a stage is hidden.
        counts: how many neighbouring stages each figure stands for; None: one.
        weight_seconds: the weights' gradients alone; None: nothing can be put off.
    """
    counts = counts or [1] * len(stage_seconds)
    each = per_chunk(plan, microbatches)
    busy = each * largest(stage_seconds)
    if forward_seconds is not None and plan.schedule in (*_TIMES, *_IDLE):
        late = weight_seconds or [0.0] * len(stage_seconds)
        runs = [
            _Run(all=both, forward=ahead, weight=weight, count=count)
            for both, ahead, weight, count in zip(
                stage_seconds, forward_seconds, late, counts, strict=True
            )
        ]
        if plan.schedule in _TIMES:
            times = _TIMES[plan.schedule](runs, each)
            return PipelineTime(busy=busy, bubble=largest(times) - busy)
        # The second half of DualPipe's stages holds the same as the first.
        stages = [run for run in runs for _ in range(run.count)]
        stages = stages[: len(stages) // streams(plan)]
        return PipelineTime(busy=busy, bubble=_of_the_others(stages, _IDLE[plan.schedule]))
    rest = total(map(operator.mul, counts, stage_seconds)) - largest(stage_seconds)
    return PipelineTime(busy=busy, bubble=rest / plan.vpp)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Neighbouring stages that are alike, and seconds of one micro-batch on each.

    Attributes:
        all: of all its passes.
        forward: of the forward pass.
        weight: of the weights' gradients.
        count: how many stages.
    """

    all: Number
    forward: Number
    weight: Number
    count: int

    @property
    def input(self) -> Number:
        """The rest: what the stage before waits for."""
        return self.all - self.forward - self.weight


def _flush(runs: Sequence[_Run], microbatches: Number) -> list[Number]:
    """1F1B: the longest of the stages' own times.

    A stage waits for the first micro-batch to reach it, and for the last to go back. What
    follows it costs it twice: the first micro-batch's way there and back, less the forwards
    it makes in the meantime, and the last one's, less the backwards still due.

    Along a run of equal stages that time is a sum of maxima of linear functions of the place,
    so it is largest at one of the run's ends.
    """
    times = []
    works = [run.count * run.all for run in runs]
    before: Number = 0.0
    for place, run in enumerate(runs):
        behind = total(works[place + 1 :])
        due = sum(other.count for other in runs[place + 1 :])
        for inside in {0, run.count - 1}:
            after, left = behind + inside * run.all, due + inside
            back = run.all - run.forward
            idle = maximum(after - left * run.forward, 0.0) + maximum(after - left * back, 0.0)
            start = before + (run.count - 1 - inside) * run.all
            times.append(start + microbatches * run.all + idle)
        before = before + works[place]
    return times


def _zero_bubble(runs: Sequence[_Run], microbatches: Number) -> list[Number]:
    """ZB-H1: as 1F1B, but only input's gradients are waited for.

    The gradients of a stage's weights that are still due when its last input's gradient goes
    up fill the time in which that reaches the first stage.
    """
    times = []
    stages = [run for run in runs for _ in range(run.count)]
    for place, stage in enumerate(stages):
        before, after = stages[:place], stages[place + 1 :]
        round_trip = total(other.forward + other.input for other in after)
        due = minimum(len(after), microbatches - 1)
        idle = maximum(round_trip - due * stage.forward, 0.0)
        idle = idle + maximum(round_trip - due * (stage.all - stage.forward), 0.0)
        up = total(other.input for other in before) + stages[0].weight
        left = (minimum(place, microbatches - 1) + 1) * stage.weight
        start = total(other.forward for other in before)
        times.append(start + microbatches * stage.all + idle + maximum(up - left, 0.0))
    return times


def _zbv(work: _Run) -> Number:
    """ZB-V: equal stages idle ``p - 1`` times the longest of F, B and 2(B - W) of a chunk."""
    return maximum(maximum(work.forward, work.input), 2 * (work.input - work.weight)) / 2


def _dualpipe(work: _Run) -> Number:
    """DualPipe and DualPipeV: F&B + B - 3W of a chunk, where B is a whole backward pass.

    For each stage but one of a V (the table in DualPipe's repository, whose PP counts chunks).
    """
    return (work.forward + 2 * work.input - work.weight) / 2


def _of_the_others(works: Sequence[_Run], idle: Callable[[_Run], Number]) -> Number:
    """A sum over all stages but the slowest.

    What a stage is faster than the slowest over one micro-batch makes up for its part.
    """
    longest = largest(work.all for work in works)
    own = [idle(work) for work in works]
    slowest = largest(
        where(work.all >= longest, each, 0.0) for work, each in zip(works, own, strict=True)
    )
    left = total(each - (longest - work.all) for work, each in zip(works, own, strict=True))
    return maximum(left - slowest, 0.0)


_TIMES = {"1f1b": _flush, "zero-bubble": _zero_bubble}
_IDLE = {"zbv": _zbv, "dualpipev": _dualpipe, "dualpipe": _dualpipe}
