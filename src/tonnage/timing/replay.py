"""A pipeline schedule replayed, pass by pass.

The closed forms of `tonnage.timing.pipeline` say what a schedule costs; this says when each
pass of each stage runs, for stages of any cost, and so is what they are held to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.plan import Plan

Way: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One pass of one micro-batch through one chunk of a stage."""

    way: Way
    chunk: int
    microbatch: int


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a stage ran a pass, in seconds from the start of the step."""

    stage: int
    step: Step
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """Seconds of a stage's passes through one chunk."""

    forward: float
    backward: float


def schedule_order(plan: Plan, stage: int, microbatches: int) -> Iterator[Step]:
    """The passes of one stage in its own order.

    * ``gpipe``: all forwards, then all backwards (arXiv 1811.06965).
    * ``1f1b``: as many forwards as stages follow, then one of each (arXiv 2006.09503).
    * ``interleaved``: the same over chunks, p micro-batches through each in turn, backward
      in the opposite order (arXiv 2104.04473, section 2.2; Megatron-Core's order).
    """
    p, v = plan.pp, plan.vpp
    passes = microbatches * v
    if plan.schedule == "gpipe":
        warmup = passes
    elif v > 1:
        warmup = min(2 * (p - stage - 1) + (v - 1) * p, passes)
    else:
        warmup = min(p - stage - 1, passes)
    forward = [_nth(k, p, v, "forward") for k in range(passes)]
    backward = [_nth(k, p, v, "backward") for k in range(passes)]
    yield from forward[:warmup]
    for k in range(passes - warmup):
        yield forward[warmup + k]
        yield backward[k]
    yield from backward[passes - warmup :]


def _nth(k: int, p: int, v: int, way: Way) -> Step:
    """The k-th pass of a stage in one direction."""
    rounds, within = divmod(k, p * v)
    chunk = within // p if way == "forward" else v - 1 - within // p
    return Step(way=way, chunk=chunk, microbatch=rounds * p + within % p)


def replay(
    plan: Plan, costs: Sequence[Sequence[PassCost]], microbatches: int, send: float = 0.0
) -> list[Span]:
    """Every pass of a step, as soon as its stage and what it waits for allow.

    A forward pass waits for the micro-batch's pass through the chunk before, a backward pass
    for that through the chunk after; the last chunk's backward waits for its forward.

    Args:
        plan: schedule, pp and vpp.
        costs: seconds of each stage's chunks, in the order that they run.
        microbatches: micro-batches of a step.
        send: seconds between the end of a pass and the start of one that waits for it on
            another stage.
    """
    orders = [list(schedule_order(plan, stage, microbatches)) for stage in range(plan.pp)]
    ends: dict[tuple[Way, int, int], float] = {}
    clock, done = [0.0] * plan.pp, [0] * plan.pp
    spans: list[Span] = []
    total = sum(len(order) for order in orders)
    while len(spans) < total:
        before = len(spans)
        for stage, order in enumerate(orders):
            while done[stage] < len(order):
                step = order[done[stage]]
                ready = _ready(plan, stage, step, ends, send)
                if ready is None:
                    break
                start = max(clock[stage], ready)
                cost = costs[stage][step.chunk]
                end = start + (cost.forward if step.way == "forward" else cost.backward)
                ends[step.way, _place(plan, stage, step.chunk), step.microbatch] = end
                spans.append(Span(stage=stage, step=step, start=start, end=end))
                clock[stage] = end
                done[stage] += 1
        assert len(spans) > before, "the schedule waits for itself"
    return spans


def _place(plan: Plan, stage: int, chunk: int) -> int:
    """Where a chunk comes in the model."""
    return chunk * plan.pp + stage


def _ready(
    plan: Plan, stage: int, step: Step, ends: dict[tuple[Way, int, int], float], send: float
) -> float | None:
    """When what a pass waits for is there; None: not yet known."""
    place, last = _place(plan, stage, step.chunk), plan.pp * plan.vpp - 1
    if step.way == "forward":
        if place == 0:
            return 0.0
        key: tuple[Way, int, int] = ("forward", place - 1, step.microbatch)
    elif place == last:
        return ends.get(("forward", place, step.microbatch))
    else:
        key = ("backward", place + 1, step.microbatch)
    end = ends.get(key)
    return None if end is None else end + (send if plan.pp > 1 else 0.0)


def seconds(spans: Sequence[Span]) -> float:
    """When the last pass ends."""
    return max((span.end for span in spans), default=0.0)
