"""Memory over one step of a stage: the moments of its peak, each at the time it happens.

The same moments as `tonnage.memory.peak` weighs in closed form, made for every pass of the
schedule with what is held just then. So the fullest of them is that closed form's peak.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tonnage.ledger import StageLedger
from tonnage.memory.alive import micro_batch
from tonnage.memory.peak import (
    CATEGORIES,
    Instant,
    Moment,
    Parts,
    grown_gradients,
    parts,
    placing,
)
from tonnage.memory.schedule import Held, course
from tonnage.memory.timeline import Timeline
from tonnage.memory.tops import largest_tensors
from tonnage.plan import Setting
from tonnage.plan.schedule import Pass, streams
from tonnage.timing.replay import Span

LOADING = 0.05
"""Share of the time axis, before the step, on which loading is drawn: how long it takes is not
known."""


@dataclass(frozen=True, kw_only=True)
class Vertex:
    """One corner of the course of memory: between two of them it is drawn as a line.

    Attributes:
        seconds: from the start of the step.
        phase: the pass, or what else happens.
        instant: what is alive.
        held: the micro-batches that are held.
    """

    seconds: float
    phase: str
    instant: Instant
    held: Held


def step_timeline(
    setting: Setting, ledger: StageLedger, spans: Sequence[Span], until: float, stepping: float
) -> Timeline:
    """Memory of one stage over a step.

    Where ``plan.iteration`` says that it is the first, loading the model comes before it, and
    there are no optimizer states before its end.

    Args:
        setting: the run.
        ledger: the stage.
        spans: the passes of the stage, in order (`tonnage.timing.replay`); of a step with fewer
            micro-batches, where that holds as much (`tonnage.plan.schedule.settled`).
        until: seconds until the last pass of all stages ends.
        stepping: seconds of the optimizer's step.
    """
    vertices = _Course(setting, ledger, spans).vertices(until, stepping)
    totals = [int(vertex.instant.allocated) for vertex in vertices]
    peak = totals.index(max(totals))
    phases: list[tuple[int, str]] = []
    for index, vertex in enumerate(vertices):
        if not phases or phases[-1][1] != vertex.phase:
            phases.append((index, vertex.phase))
    return Timeline(
        seconds=tuple(vertex.seconds for vertex in vertices),
        categories={
            name: tuple(int(vertex.instant.categories[name]) for vertex in vertices)
            for name in CATEGORIES
        },
        phases=tuple(phases),
        peak=peak,
        alive=largest_tensors(setting, ledger, vertices[peak].instant, vertices[peak].held),
        instants=tuple(vertex.instant.when for vertex in vertices),
    )


class _Course:
    """A walk along the passes of one stage."""

    def __init__(self, setting: Setting, ledger: StageLedger, spans: Sequence[Span]) -> None:
        self.setting = setting
        self.spans = _apart(spans)
        self.left = micro_batch(setting, ledger)
        self.placed = placing(setting, ledger)
        self.filled = parts(setting, ledger, True)
        grown = grown_gradients(setting, ledger, self.filled.held, False)
        self.fresh = dataclasses.replace(self.filled, grown=grown)
        count = sum(span.step.forward for span in spans) // len(ledger.stage.chunks)
        passes = course(setting.plan, ledger.stage.index, count * streams(setting.plan))
        self.helds = [held for _, held in passes]
        nothing = (0,) * len(ledger.stage.chunks)
        self.empty = Held(kept=nothing, late=nothing, made="weight", chunk=0, back=None)

    def vertices(self, until: float, stepping: float) -> list[Vertex]:
        """The corners of the whole step."""
        rest, end = self._rest(), until + stepping
        found = list(self._loading(rest, end)) if self.setting.plan.iteration == "first" else []
        found.append(self._at(0.0, "start", _named(self.placed(rest), "start")))
        found += self._passes()
        step = self.placed(self.filled.step())
        found += [self._at(when, "optimizer step", step) for when in (until, end)]
        settled = self.placed(dataclasses.replace(rest, stepped=True))
        found.append(self._at(end, "end of the step", _named(settled, "end of the step")))
        return found

    def _at(self, when: float, phase: str, instant: Instant, held: Held | None = None) -> Vertex:
        return Vertex(seconds=when, phase=phase, instant=instant, held=held or self.empty)

    def _rest(self) -> Moment:
        """Between steps: gradients are there if they have a buffer."""
        persistent = self.setting.runtime.gradient_buffer == "persistent"
        return Moment(when="rest", gradients=self.filled.grown.early if persistent else 0)

    def _loading(self, rest: Moment, end: float) -> Iterator[Vertex]:
        """What is allocated before the first step: parameters, masters, gradient buffers."""
        whole = self.placed(rest).categories
        order = ("parameters", "master_weights", "gradients")
        for turn in range(len(order) + 1):
            there = {name: whole[name] if name in order[:turn] else 0 for name in whole}
            when = -LOADING * end * (len(order) - turn) / len(order)
            yield self._at(when, "load", Instant(when="load", categories=there))

    def _passes(self) -> Iterator[Vertex]:
        before, grown = self.empty, self.fresh
        for span, held in zip(self.spans, self.helds, strict=True):
            way, phase = span.step.way, _phase(span.step)
            yield self._at(span.start, phase, self._between(grown, before, "pass begins"), before)
            moments = list(self._moments(span.step, grown, before, held))
            for turn, moment in enumerate(moments, 1):
                when = span.start + (span.end - span.start) * turn / (len(moments) + 1)
                there = held if way == "forward" else before
                yield self._at(when, phase, self.placed(moment), there)
            before, grown = held, grown if way == "forward" else self.filled
            yield self._at(span.end, phase, self._between(grown, held, "pass ends"), held)

    def _between(self, grown: Parts, held: Held, when: str) -> Instant:
        """Between passes as little is gathered as at any time in one; after the last, nothing."""
        whole = grown.whole
        moment = Moment(
            when=when,
            gradients=grown.grown.early,
            activations=self.left.bytes(held),
            whole=min(whole.layers, whole.loss, whole.end) if any(held.kept) else 0,
        )
        return self.placed(moment)

    def _moments(self, step: Pass, made: Parts, before: Held, held: Held) -> Iterator[Moment]:
        """The moments inside a pass, as `tonnage.memory.peak` has them."""
        found, grown = self.left, made.grown
        last = step.chunk == len(held.kept) - 1
        if step.way == "forward":
            yield made.forward(found.bytes(held), grown.early)
            if last:
                losses = held.kept[-1] if self.setting.plan.schedule == "gpipe" else 1
                yield made.loss(found.bytes(held), grown.early, losses)
            return
        if step.way == "weight":
            return
        if last:
            yield made.head_backward(found.bytes(before), grown.top)
            yield made.head_product(found.bytes(before), grown.top)
        yield made.backward("backward", found.backward(before), grown.top)
        if step.way == "input":
            yield made.last_layer("weights put off", found.bytes(held), grown.later)
        else:
            yield made.last_layer("last layer's backward", found.others(before), grown.bottom)
        if step.chunk == 0:
            yield made.embedding_backward(found.leaving(before))


def _apart(spans: Sequence[Span]) -> list[Span]:
    """Passes that run side by side, drawn one after the other."""
    found = list(spans)
    for index, span in enumerate(spans):
        if span.step.paired:
            middle = (span.start + span.end) / 2
            found[index] = dataclasses.replace(span, end=middle)
            found[index + 1] = dataclasses.replace(spans[index + 1], start=middle)
    return found


def _named(instant: Instant, when: str) -> Instant:
    return dataclasses.replace(instant, when=when)


def _phase(step: Pass) -> str:
    """A pass as a person reads it."""
    what = {"input": "input's gradient", "weight": "weights' gradients"}.get(step.way, step.way)
    return f"{what} of micro-batch {step.microbatch}" + (f", chunk {step.chunk}" * (step.chunk > 0))
