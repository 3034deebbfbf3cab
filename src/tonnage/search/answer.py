"""What a search answers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tonnage.estimation import SCHEMA_VERSION, Estimate
from tonnage.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One of the best plans.

    Attributes:
        plan: the plan, every blank filled.
        estimate: what `tonnage.estimate` says of it.
        cost: money for a step, or for the run where its length is given; None without a price.
    """

    plan: Plan
    estimate: Estimate
    cost: float | None


@dataclass(frozen=True, kw_only=True)
class Point:
    """A plan of the frontier of step time against memory.

    Attributes:
        seconds: of a step.
        device_bytes: on the worst rank's device.
        device: the name of the device.
        gpus: how many.
        plan: the plan.
    """

    seconds: float
    device_bytes: int
    device: str
    gpus: int
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """The best plan with one knob a step further.

    Attributes:
        knob: which.
        before: its value in the best plan.
        after: its value here.
        fields: what is changed with it, by field of a plan.
        seconds: of a step, after less before; None where that is no plan.
        bytes: of the worst rank's device, after less before; likewise.
        fits: whether it fits.
        error: why it is no plan; empty where it is one.
    """

    knob: str
    before: str
    after: str
    fields: dict[str, Any]
    seconds: float | None
    bytes: int | None
    fits: bool
    error: str


@dataclass(frozen=True, kw_only=True)
class Binding:
    """What keeps the best plan from being faster.

    Attributes:
        name: memory, bubble, communication or batch.
        share: of the step, or of the device's memory.
        remark: in words.
    """

    name: str
    share: float
    remark: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Plans of one group as the cloud shows them: their best, and how many they are.

    Attributes:
        seconds: of a step.
        device_bytes: on the worst rank's device.
        good: whether it meets every limit.
        label: its degrees.
    """

    seconds: float
    device_bytes: int
    good: bool
    label: str


_DRAWN = ("cloud", "excluded")
"""Fields that are for figures."""


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """The best plans, and what was looked at to find them.

    Attributes:
        space: legal plans that were decided on, by weighing them or by a bound.
        evaluated: plans that were weighed.
        feasible: those of them that meet every limit.
        seconds: that the search took.
        complete: whether all of the space was decided on; not after an interruption.
        replayed: plans that a closed bound of reserved memory excludes and that would have been
            among the best: they were replayed, and are among ``plans`` where they fit.
        plans: the best, structurally different ones first.
        frontier: of the cluster of the best plan, the fastest first.
        bindings: what binds the best plan, the tightest first.
        neighbours: of the best plan.
        plainer: those of them that fit, take hardly longer, and are what people usually launch.
        nearest: where nothing meets the limits, the plan that comes nearest: the fastest, or on
            the fewest GPUs, where only the deadline or the budget is missed; else the one that
            needs least memory.
        cloud: what was weighed, for a figure.
        excluded: rows of degrees of which bounds excluded every plan, by their floors; some of
            them where they are many (`tonnage.search.excluded`), for the same figure.
    """

    space: int
    evaluated: int
    feasible: int
    seconds: float
    complete: bool
    replayed: int
    plans: tuple[Proposal, ...]
    frontier: tuple[Point, ...]
    bindings: tuple[Binding, ...]
    neighbours: tuple[Neighbour, ...]
    plainer: tuple[Neighbour, ...]
    nearest: Proposal | None
    cloud: tuple[Mark, ...]
    excluded: tuple[Mark, ...]

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON takes it: SI bytes and seconds; what is for figures is left out."""
        fields = (field.name for field in dataclasses.fields(self))
        data = {name: getattr(self, name) for name in fields if name not in _DRAWN}
        return {
            "schema_version": SCHEMA_VERSION,
            **{name: _plain(value) for name, value in data.items()},
        }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
