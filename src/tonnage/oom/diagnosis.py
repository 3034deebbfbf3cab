"""A failure joined with an estimate of the run: what was asked for, when, and what to change."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation import SCHEMA_VERSION, Estimate, Limits, estimate
from tonnage.ledger import stage_ledgers
from tonnage.oom.advice import advice
from tonnage.oom.cache import cache_suspects
from tonnage.oom.log import Failure
from tonnage.oom.suspects import Suspect, suspects
from tonnage.oom.traceback import Moment
from tonnage.oom.verdict import Verdict, killed, size_says, verdict
from tonnage.plan import Plan, resolve
from tonnage.search import Change, changes, nearest

INSTANTS: Final[dict[Moment, tuple[str, ...]]] = {
    "forward": ("forward",),
    "loss": ("loss",),
    "recomputation": ("first backward",),
    "backward": ("head backward", "first backward", "last backward", "embedding backward"),
    "optimizer step": ("optimizer step",),
}
"""Where each moment of a traceback lies among an estimate's candidates for the peak."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What an estimate adds.

    Attributes:
        answer: the estimate of the run that failed.
        suspects: tensors of the size that was asked for.
        expected: bytes of tensors that the estimate has at that moment on its fullest stage;
            None where the moment is not known.
        changes: what would save memory: first what makes it fit, then the cheapest in time.
    """

    answer: Estimate
    suspects: tuple[Suspect, ...]
    expected: int | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that can be said of a failure.

    Attributes:
        failure: the message and where it came from.
        verdict: fragmentation, shortage, or what else; None where only a serving engine spoke.
        size: what the allocator's rounding hides of the size; empty where it hides little.
        advice: what to do, by the message alone.
        run: what an estimate adds; None without a model.
    """

    failure: Failure
    verdict: Verdict | None
    size: str
    advice: tuple[str, ...]
    run: Run | None = None

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON takes it."""
        found: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}
        if self.run is not None:
            found["run"]["changes"] = [change.to_dict() for change in self.run.changes]
        return found


def diagnose(failure: Failure) -> Diagnosis:
    """What a failure says by itself."""
    return _diagnose(failure, weighed=False)


def _diagnose(failure: Failure, *, weighed: bool) -> Diagnosis:
    message, found = failure.message, None
    if failure.kill is not None:
        found = killed(failure.kill)
    elif message is not None:
        found = verdict(message)
    return Diagnosis(
        failure=failure,
        verdict=found,
        size=size_says(message) if message is not None else "",
        advice=advice(failure, found, weighed=weighed),
    )


def diagnose_run(
    failure: Failure,
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None = None,
) -> Diagnosis:
    """What a failure says beside an estimate of the run that it ended.

    Raises:
        InputError: the plan is impossible on this cluster.
    """
    alone = _diagnose(failure, weighed=True)
    answer = estimate(architecture, plan, cluster, limits)
    resolved = resolve(plan, architecture, cluster)
    if failure.shortage is not None:
        served = cache_suspects(resolved.setting, failure.shortage)
        run = Run(answer=answer, suspects=served, expected=None, changes=())
        return dataclasses.replace(alone, run=run)
    named: tuple[Suspect, ...] = ()
    if failure.message is not None:
        ledgers = stage_ledgers(resolved.setting, resolved.stages)
        named = suspects(resolved.setting, ledgers, failure.message, failure.moment)
    enough = () if answer.fits else nearest(architecture, plan, cluster, limits, before=answer)
    single = changes(architecture, plan, cluster, limits, before=answer)
    named_before = [change.fields for change in enough]
    run = Run(
        answer=answer,
        suspects=named,
        expected=_expected(answer, failure.moment),
        changes=(*enough, *(change for change in single if change.fields not in named_before)),
    )
    return dataclasses.replace(alone, run=run)


def _expected(answer: Estimate, moment: Moment | None) -> int | None:
    instants = INSTANTS.get(moment, ()) if moment is not None else ()
    found = [
        stage.instants[name]
        for stage in answer.memory.stages
        for name in instants
        if name in stage.instants
    ]
    return max(found, default=None)
