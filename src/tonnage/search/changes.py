"""One change to a plan at a time, each weighed: what it does to bytes and seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import Estimate, Limits, estimate
from tonnage.plan import Plan
from tonnage.runtime import OFFLOADS

MOST: Final = 6
"""Changes that are named at most."""

DOUBLED: Final = ("tp", "pp", "cp", "ep")
LEANER_LOSSES: Final = ("in-place", "linear", "chunked")
"""Ways of computing the loss with fewer copies of the logits than others have."""

TRIFLE: Final = 0.005
"""Of the peak: what saves less is no help."""

PARTS: Final = (0.25, 0.5, 0.75)
"""Shares of a stage's layers that are recomputed, short of all."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A plan with one thing changed, or a few together, and what that does.

    Attributes:
        fields: what is changed, by field of a plan.
        alters: what else it changes of the training, as a clause; empty where the same numbers
            are computed.
        answer: the estimate of the changed plan.
        bytes: of the worst rank's device, after less before: negative where it saves.
        seconds: of a step, after less before.
    """

    fields: dict[str, Any]
    alters: str
    answer: Estimate
    bytes: int
    seconds: float

    @property
    def share(self) -> float:
        """By which part the step becomes longer."""
        return self.seconds / (self.answer.step.seconds - self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON takes it: without the whole answer."""
        return {
            "fields": self.fields,
            "alters": self.alters,
            "fits": self.answer.fits,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }


def changes(
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None = None,
    *,
    before: Estimate | None = None,
) -> tuple[Change, ...]:
    """Every single change that saves more than a trifle, the cheapest in time first.

    The global batch stays. What the runtime or the model does not allow is left out.

    Args:
        architecture: what is trained.
        plan: the plan as it is.
        cluster: on what.
        limits: as for the estimate.
        before: the estimate of the plan as it is, where there is one already.
    """
    before = before or estimate(architecture, plan, cluster, limits)
    return _saving(every_change(architecture, before, cluster, limits), before)


def every_change(
    architecture: Architecture, before: Estimate, cluster: Cluster, limits: Limits | None
) -> list[Change]:
    """Every single change that is a plan, whatever it saves, the cheapest in time first."""
    found = [
        weighed
        for fields, alters in _moves(before.plan, len(architecture.layers))
        if (weighed := weigh(architecture, before, cluster, limits, fields, alters))
    ]
    return sorted(found, key=_cost)


def _saving(found: list[Change], before: Estimate) -> tuple[Change, ...]:
    least = TRIFLE * before.memory.peak_bytes.device
    return tuple(sorted((each for each in found if -each.bytes > least), key=_cost))


def nearest(
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None = None,
    *,
    before: Estimate | None = None,
) -> tuple[Change, ...]:
    """The changes that make a plan fit, the cheapest in time first.

    Single ones; where none is enough, those that save most, taken together one after another
    until the plan fits (one answer, or none where all of them are not enough).
    """
    before = before or estimate(architecture, plan, cluster, limits)
    single = every_change(architecture, before, cluster, limits)
    enough = [change for change in _saving(single, before) if change.answer.fits]
    if enough:
        return tuple(enough[:MOST])
    same = [change for change in single if not change.alters]
    # Host memory is joined with other changes only where those are not enough.
    here = [change for change in same if not set(OFFLOADS) & change.fields.keys()]
    for group in (here, same):
        joined = _together(architecture, before, cluster, limits, group)
        if joined is not None:
            return (joined,)
    return ()


def _together(
    architecture: Architecture,
    before: Estimate,
    cluster: Cluster,
    limits: Limits | None,
    remaining: list[Change],
) -> Change | None:
    """Changes taken one after another, the one that saves most first, until they are enough.

    A later one that makes an earlier field larger replaces it (``tp`` 4 after ``tp`` 2).
    """
    current = before
    taken: dict[str, Any] = {}
    alters: list[str] = []
    while remaining:
        tried = [
            weighed
            for change in remaining
            if (
                weighed := weigh(
                    architecture, current, cluster, limits, change.fields, change.alters
                )
            )
            and weighed.bytes < 0
        ]
        if not tried:
            return None
        fitting = [change for change in tried if change.answer.fits]
        best = min(fitting, key=_cost) if fitting else min(tried, key=lambda c: c.bytes)
        taken.update(best.fields)
        current = best.answer
        alters += [best.alters] if best.alters else []
        if current.fits:
            return _compared(before, current, taken, "; ".join(alters))
        remaining = [
            change for change in remaining if not best.fields.items() <= change.fields.items()
        ]
    return None


def weigh(
    architecture: Architecture,
    before: Estimate,
    cluster: Cluster,
    limits: Limits | None,
    fields: dict[str, Any],
    alters: str,
) -> Change | None:
    """The plan with some fields changed; None where that is no plan."""
    # What follows from other fields is worked out anew; what was chosen stays.
    free: dict[str, Any] = {"dp": None, "grad_acc": None}
    if "tp" in fields:
        free |= {"sp": kept_sp(before.plan, fields["tp"])}
        free |= {"etp": None if before.plan.etp == before.plan.tp else before.plan.etp}
    if {"pp", "vpp"} & fields.keys():
        free |= {"schedule": None, "first_stage_layers": None, "last_stage_layers": None}
        free |= {"pipeline_layout": None}
    if "recompute" in fields:
        names = ("recompute_method", "recompute_num_layers", "recompute_modules")
        free |= {name: getattr(Plan, name) for name in names}
    changed = dataclasses.replace(before.plan, **{**free, **fields})
    try:
        answer = estimate(architecture, changed, cluster, limits)
    except InputError:
        return None
    return _compared(before, answer, fields, alters)


def kept_sp(plan: Plan, tp: int) -> bool | None:
    """Sequence parallelism of a plan with another ``tp``: as it was, where there was a choice."""
    return plan.sp if plan.tp > 1 and tp > 1 else None


def _compared(before: Estimate, after: Estimate, fields: dict[str, Any], alters: str) -> Change:
    return Change(
        fields={
            name: value for name, value in fields.items() if getattr(before.plan, name) != value
        },
        alters=alters,
        answer=after,
        bytes=after.memory.peak_bytes.device - before.memory.peak_bytes.device,
        seconds=after.step.seconds - before.step.seconds,
    )


def _cost(change: Change) -> tuple[bool, float, int]:
    """The same training first, then the shorter step, then the larger saving."""
    return bool(change.alters), change.seconds, change.bytes


def _moves(plan: Plan, layers: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Fields to change, and what else each alters of the training."""
    yield from ((fields, "") for fields in _batch_moves(plan))
    yield from ((fields, "") for fields in _recompute_moves(plan, layers))
    for axis in DOUBLED:
        yield {axis: getattr(plan, axis) * 2}, ""
    for stage in range((plan.zero or 0) + 1, 4):
        yield {"zero": stage, "hsdp_shard": None}, ""
    if plan.hsdp_shard is not None:
        yield {"hsdp_shard": None}, ""
    yield from (({"loss": loss}, "") for loss in LEANER_LOSSES if loss != plan.loss)
    if plan.optimizer_step == "foreach":
        yield {"optimizer_step": "fused"}, ""
    if not plan.offload_parameters:
        yield {"offload_parameters": True}, ""
    if not plan.offload_optimizer:
        yield {"offload_optimizer": 1.0}, ""
    if not plan.offload_activations:
        yield {"offload_activations": True}, ""
    if plan.optimizer.startswith("adam") and "8bit" not in plan.optimizer:
        yield {"optimizer": "adam8bit"}, "moments are kept in 8 bits"
    if plan.seq and plan.seq % 2 == 0:
        yield {"seq": plan.seq // 2}, "shorter sequences"


def _batch_moves(plan: Plan) -> Iterator[dict[str, Any]]:
    """Smaller micro-batches of the same global batch."""
    size = plan.mbs
    while size % 2 == 0:
        size //= 2
        yield {"mbs": size}


def _recompute_moves(plan: Plan, layers: int) -> Iterator[dict[str, Any]]:
    """More recomputation: of attention, of a few layers, of all."""
    if plan.recompute == "none":
        yield {"recompute": "selective"}
    if plan.recompute == "full" and plan.recompute_method == "uniform":
        return
    held = max(1, layers // plan.pp)
    begun = plan.recompute_num_layers if plan.recompute == "full" else 0
    for part in PARTS:
        count = round(held * part)
        if begun < count < held:
            yield {**_FULL, "recompute_method": "block", "recompute_num_layers": count}
    yield {**_FULL, "recompute_method": "uniform", "recompute_num_layers": 1}


_FULL: Final = {"recompute": "full"}
