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
from tonnage.search import TRIFLE, Change, every_change, nearest

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
        changes: what would save memory at the peak or at that moment: first what makes it fit,
            then what saves at that moment as much as was missing, then the cheapest in time.
        saved_then: bytes that each of them saves at that moment; None where it is not known.
    """

    answer: Estimate
    suspects: tuple[Suspect, ...]
    expected: int | None
    changes: tuple[Change, ...]
    saved_then: tuple[int | None, ...] = ()


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
    missing = alone.verdict.missing if alone.verdict is not None else None
    weighed = every_change(architecture, answer, cluster, limits)
    enough = () if answer.fits else nearest(architecture, plan, cluster, limits, before=answer)
    helpful = (*enough, *_helpful(answer, weighed, enough, failure.moment, missing))
    run = Run(
        answer=answer,
        suspects=named,
        expected=_expected(answer, failure.moment),
        changes=helpful,
        saved_then=tuple(_saved_then(answer, each, failure.moment) for each in helpful),
    )
    return dataclasses.replace(alone, run=run)


def _helpful(
    before: Estimate,
    weighed: list[Change],
    named: tuple[Change, ...],
    moment: Moment | None,
    missing: int | None,
) -> list[Change]:
    """What saves more than a trifle at the peak, or at the moment that failed."""
    known = [change.fields for change in named]
    least = TRIFLE * before.memory.peak_bytes.device

    def saved(change: Change) -> int:
        return _saved_then(before, change, moment) or 0

    single = [
        change
        for change in weighed
        if max(-change.bytes, saved(change)) > least and change.fields not in known
    ]
    # The order is stable: within each half, the same training and the shorter step come first.
    return sorted(single, key=lambda change: missing is not None and saved(change) < missing)


def _saved_then(before: Estimate, change: Change, moment: Moment | None) -> int | None:
    was, now = _expected(before, moment), _expected(change.answer, moment)
    return None if was is None or now is None else was - now


def _expected(answer: Estimate, moment: Moment | None) -> int | None:
    instants = INSTANTS.get(moment, ()) if moment is not None else ()
    found = [
        stage.instants[name]
        for stage in answer.memory.stages
        for name in instants
        if name in stage.instants
    ]
    return max(found, default=None)
