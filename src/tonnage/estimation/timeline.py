"""Memory and passes of one run over a step: what `--timeline`, `--gantt` and a page show."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation.limits import Limits, limits_of
from tonnage.ledger import StageLedger, stage_ledgers
from tonnage.memory.course import step_timeline
from tonnage.memory.timeline import Timeline
from tonnage.plan import Plan, Setting, resolve
from tonnage.plan.schedule import Way
from tonnage.timing import step_time
from tonnage.timing.schedule import Replayed, replay_run


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """Tensors of one name that are alive at a peak: how many, and bytes of all of them."""

    name: str
    category: str
    count: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PhasePart:
    """A stretch of a timeline: the point that it starts at, and what happens."""

    point: int
    name: str


@dataclass(frozen=True, kw_only=True)
class TimelinePart:
    """Memory of one stage over a step, at points between which it is drawn as a line.

    Attributes:
        stage: position in the pipeline.
        seconds: of each point, from the start of the step; loading lies before it.
        instants: what happens at each point.
        categories: bytes of tensors at each point, by category.
        phases: the passes, and what else a step has.
        peak_point: the point at which most is allocated.
        peak_bytes: that much.
        peak_instant: what happens then.
        peak_phase: in which pass.
        top_tensors: the largest that are alive then.
    """

    stage: int
    seconds: tuple[float, ...]
    instants: tuple[str, ...]
    categories: dict[str, tuple[int, ...]]
    phases: tuple[PhasePart, ...]
    peak_point: int
    peak_bytes: int
    peak_instant: str
    peak_phase: str
    top_tensors: tuple[TensorRow, ...]


@dataclass(frozen=True, kw_only=True)
class SpanPart:
    """One pass of one stage: seconds from the start of the step."""

    stage: int
    way: Way
    chunk: int
    microbatch: int
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class PipelinePart:
    """The replay of a pipeline.

    Attributes:
        schedule: its name.
        microbatches: of a step.
        replayed: how many of them are in ``spans``; those left out repeat what is there.
        spans: every pass.
        exposed_share: by stage, the share of its passes that is communication in the open.
        seconds: of these passes.
        step_seconds: of all micro-batches, by the replay.
        form_seconds: by the closed form, which an estimate uses.
    """

    schedule: str
    microbatches: int
    replayed: int
    spans: tuple[SpanPart, ...]
    exposed_share: tuple[float, ...]
    seconds: float
    step_seconds: float
    form_seconds: float

    @property
    def idle(self) -> float:
        """The share of a stage's seconds in which it runs no pass, over all stages and passes."""
        stages = {span.stage for span in self.spans}
        moments = {(span.stage, span.start, span.end) for span in self.spans}
        busy = sum(end - start for _, start, end in moments)
        return 1.0 - busy / (self.seconds * len(stages)) if self.seconds else 0.0


@dataclass(frozen=True, kw_only=True)
class RunTimeline:
    """A run over a step.

    Attributes:
        stages: every pipeline stage, in a later step.
        first_step: the fullest stage in the first step, with loading before it.
        pipeline: the passes.
    """

    stages: tuple[TimelinePart, ...]
    first_step: TimelinePart
    pipeline: PipelinePart

    @property
    def fullest(self) -> TimelinePart:
        """The stage with the highest peak."""
        return max(self.stages, key=lambda stage: stage.peak_bytes)


def timeline(
    architecture: Architecture, plan: Plan, cluster: Cluster, limits: Limits | None = None
) -> RunTimeline:
    """Memory and passes of a run over one step.

    Args:
        architecture: what is trained.
        plan: how.
        cluster: on what.
        limits: for its efficiencies.

    Raises:
        InputError: the plan is impossible, or a figure it needs is not published.
        NotModelledError: it asks for something that is not accounted for.
    """
    efficiency = limits_of(limits).efficiency
    resolved = resolve(plan, architecture, cluster)
    setting = resolved.setting
    ledgers = stage_ledgers(setting, resolved.stages)
    played = replay_run(setting, ledgers, cluster, efficiency)
    stepping = float(step_time(setting, ledgers, cluster, efficiency).after)

    def course(ledger: StageLedger, iteration: Literal["first", "steady"]) -> TimelinePart:
        there = _at(setting, iteration)
        stage = ledger.stage.index
        spans = [span for span in played.spans if span.stage == stage]
        return _part(stage, step_timeline(there, ledger, spans, played.seconds, stepping))

    stages = tuple(course(ledger, "steady") for ledger in ledgers)
    fullest = max(stages, key=lambda stage: stage.peak_bytes).stage
    return RunTimeline(
        stages=stages,
        first_step=course(ledgers[fullest], "first"),
        pipeline=_pipeline(setting, played),
    )


def _at(setting: Setting, iteration: Literal["first", "steady"]) -> Setting:
    return dataclasses.replace(setting, plan=dataclasses.replace(setting.plan, iteration=iteration))


def _part(stage: int, line: Timeline) -> TimelinePart:
    return TimelinePart(
        stage=stage,
        seconds=line.seconds,
        instants=line.instants,
        categories=line.categories,
        phases=tuple(PhasePart(point=point, name=name) for point, name in line.phases),
        peak_point=line.peak,
        peak_bytes=line.peak_bytes,
        peak_instant=line.instants[line.peak],
        peak_phase=line.peak_phase,
        top_tensors=tuple(
            TensorRow(name=row.name, category=row.category, count=row.count, bytes=row.bytes)
            for row in line.alive
        ),
    )


def _pipeline(setting: Setting, played: Replayed) -> PipelinePart:
    return PipelinePart(
        schedule=str(setting.plan.schedule),
        microbatches=int(setting.grad_acc),
        replayed=played.microbatches,
        spans=tuple(
            SpanPart(
                stage=span.stage,
                way=span.step.way,
                chunk=span.step.chunk,
                microbatch=span.step.microbatch,
                start=span.start,
                end=span.end,
            )
            for span in played.spans
        ),
        exposed_share=played.exposed,
        seconds=played.seconds,
        step_seconds=played.step_seconds,
        form_seconds=played.form_seconds,
    )
