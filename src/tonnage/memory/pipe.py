"""When a stage's neighbours in the pipeline have something for it.

A stage waits for the gradient of a micro-batch that the stages behind it have still to run,
and that decides how far its host is ahead of its device by then. The stages behind are
followed pass by pass from the moments that this stage sends to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.memory.program import Kind, Program
from tonnage.memory.schedule import shortened
from tonnage.memory.units import Unit
from tonnage.plan import Setting
from tonnage.plan.schedule import Pass


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Seconds of one micro-batch on a stage when it never waits for another."""

    forward: float
    backward: float


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A stage's turn: as its host issues it, and as host and device get it done.

    Attributes:
        host: what the host needs.
        both: the larger of what host and device need.
    """

    host: Turn
    both: Turn


def turns(units: tuple[Unit, ...]) -> Turns:
    """How long a stage's passes take."""
    back = [unit.again for unit in units if unit.again] + [unit.backward for unit in units]
    forward = _seconds([unit.forward for unit in units])
    backward = _seconds(back)
    return Turns(
        host=Turn(forward=forward[0], backward=backward[0]),
        both=Turn(forward=max(forward), backward=max(backward)),
    )


def _seconds(programs: list[Program]) -> tuple[float, float]:
    """Seconds of the host and of the device."""
    host = device = 0.0
    for program in programs:
        for step in program.steps:
            if step.kind in (Kind.RUN, Kind.SEND):
                host += step.cost.host
                device += step.cost.device
    return host, device


class Pipe:
    """The pipeline around one stage, in one step."""

    def __init__(self, setting: Setting, stage: int, turns: tuple[Turn, ...]) -> None:
        self._plan = setting.plan
        self._microbatches = int(setting.grad_acc)
        self._stage = stage
        self._turns = turns
        self._orders = {other: self._order(other) for other in range(stage + 1, len(turns))}
        self.start(0.0)

    def start(self, now: float) -> None:
        """A step begins."""
        self._now = now
        self._forward: dict[int, float] = {}
        self._back: dict[int, float] = {}
        self._ends: dict[tuple[int, Pass], float] = {}

    def sent(self, one: Pass, now: float) -> None:
        """This stage has finished a pass and sent on what came of it."""
        (self._forward if one.forward else self._back)[one.microbatch] = now

    def arrives(self, one: Pass) -> float:
        """When the input of a pass is there."""
        if self._plan.vpp > 1:
            return 0.0
        return self._activation(one.microbatch) if one.forward else self._gradient(one)

    def _activation(self, microbatch: int) -> float:
        """From the stage before: at first as it fills, then for each gradient it is sent."""
        before = self._turns[: self._stage]
        if not before:
            return 0.0
        waits = microbatch - (len(self._turns) - self._stage)
        if waits in self._back:
            return self._back[waits] + before[-1].backward + before[-1].forward
        fill = sum(turn.forward for turn in before)
        return self._now + fill + microbatch * max(turn.forward for turn in before)

    def _gradient(self, one: Pass) -> float:
        return self._end(self._stage + 1, one)

    def _order(self, stage: int) -> dict[Pass, Pass | None]:
        """Each pass of a stage, and the one before it."""
        found = shortened(self._plan, stage, self._microbatches)
        return dict(zip(found, (None, *found[:-1]), strict=True))

    def _end(self, stage: int, one: Pass) -> float:
        """When a stage behind this one has finished a pass."""
        key = (stage, one)
        if key not in self._ends:
            before = self._orders[stage][one]
            start = self._end(stage, before) if before is not None else self._now
            length = self._turns[stage].forward if one.forward else self._turns[stage].backward
            self._ends[key] = max(start, self._ready(stage, one)) + length
        return self._ends[key]

    def _ready(self, stage: int, one: Pass) -> float:
        if one.forward:
            if stage == self._stage + 1:
                return self._forward.get(one.microbatch, 0.0)
            return self._end(stage - 1, one)
        return self._end(stage + 1, one) if stage + 1 < len(self._turns) else 0.0
