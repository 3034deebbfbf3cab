"""A pipeline schedule replayed, pass by pass.

The closed forms of `tonnage.timing.pipeline` say what a schedule costs; this says when each
pass of each stage runs, for stages of any cost, and so is what they are held to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.plan import Plan
from tonnage.plan.schedule import Pass, Seat, Way, chunks, order, places, seat


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a stage ran a pass, in seconds from the start of the step."""

    stage: int
    step: Pass
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """Seconds of a stage's passes through one chunk.

    Attributes:
        forward: of the forward pass.
        backward: of a whole backward pass.
        weight: of the part of it that makes the weights' gradients.
    """

    forward: float
    backward: float
    weight: float = 0.0

    def of(self, way: Way) -> float:
        """Seconds of one of the passes."""
        if way == "input":
            return self.backward - self.weight
        found: float = getattr(self, way)
        return found


_Key: TypeAlias = tuple[str, Seat, int]


class _Pipeline:
    """What has been made so far, and what each pass waits for."""

    def __init__(self, plan: Plan, send: float) -> None:
        self.last = places(plan) - 1
        self.seats = {
            (stage, chunk): seat(plan, stage, chunk)
            for stage in range(plan.pp)
            for chunk in range(chunks(plan))
        }
        self.stages = {place: stage for (stage, _), place in self.seats.items()}
        self.send = send
        self.ends: dict[_Key, float] = {}

    def ready(self, stage: int, step: Pass) -> float | None:
        """When what a pass waits for is there; None: not yet known."""
        here = self.seats[stage, step.chunk]
        if step.way == "weight":
            return self.ends.get(("backward", here, step.microbatch))
        if step.way == "forward":
            if here.place == 0:
                return 0.0
            way, before = "forward", Seat(place=here.place - 1, stream=here.stream)
        elif here.place == self.last:
            return self.ends.get(("forward", here, step.microbatch))
        else:
            way, before = "backward", Seat(place=here.place + 1, stream=here.stream)
        end = self.ends.get((way, before, step.microbatch))
        if end is None:
            return None
        return end + (self.send if self.stages[before] != stage else 0.0)

    def done(self, stage: int, step: Pass, end: float) -> None:
        """A pass has been made; what comes of a backward pass goes on with its first half."""
        if step.way != "weight":
            way = "forward" if step.forward else "backward"
            self.ends[way, self.seats[stage, step.chunk], step.microbatch] = end


def replay(
    plan: Plan, costs: Sequence[Sequence[PassCost]], microbatches: int, send: float = 0.0
) -> list[Span]:
    """Every pass of a step, as soon as its stage and what it waits for allow.

    A forward pass waits for the micro-batch's pass through the piece of the model before, a
    backward pass for that through the piece after; the last one's backward waits for its
    forward. A pair starts once both of its passes can, and ends after the sum of their costs,
    from which what overlapping hides has been taken already.

    Args:
        plan: schedule, pp, vpp and microbatch_group.
        costs: seconds of each stage's chunks, in the order that they run.
        microbatches: micro-batches of a step.
        send: seconds between the end of a pass and the start of one that waits for it on
            another stage.
    """
    pipeline = _Pipeline(plan, send)
    orders = [_together(order(plan, stage, microbatches)) for stage in range(plan.pp)]
    clock, done = [0.0] * plan.pp, [0] * plan.pp
    spans: list[Span] = []
    left = sum(map(len, orders))
    while left:
        before = left
        for stage, todo in enumerate(orders):
            while done[stage] < len(todo):
                steps = todo[done[stage]]
                ready = [pipeline.ready(stage, step) for step in steps]
                known = [moment for moment in ready if moment is not None]
                if len(known) < len(ready):
                    break
                start = max(clock[stage], *known)
                end = start + sum(costs[stage][step.chunk].of(step.way) for step in steps)
                for step in steps:
                    pipeline.done(stage, step, end)
                    spans.append(Span(stage=stage, step=step, start=start, end=end))
                clock[stage] = end
                done[stage] += 1
                left -= 1
        assert left < before, "the schedule waits for itself"
    return spans


def _together(passes: Sequence[Pass]) -> list[tuple[Pass, ...]]:
    """Passes one by one, pairs as pairs."""
    found: list[tuple[Pass, ...]] = []
    for one in passes:
        if found and len(found[-1]) == 1 and found[-1][0].paired:
            found[-1] = (*found[-1], one)
        else:
            found.append((one,))
    return found


def seconds(spans: Sequence[Span]) -> float:
    """When the last pass ends."""
    return max((span.end for span in spans), default=0.0)
