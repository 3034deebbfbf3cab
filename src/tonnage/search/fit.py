"""The largest batch, sequence or model that fits; the fewest devices that hold one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from tonnage.algebra import divisors
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import SCHEMA_VERSION, Estimate, Limits, estimate
from tonnage.plan import Plan, resolve
from tonnage.plan.nouns import check_nouns
from tonnage.quantity import format_bytes
from tonnage.search.resize import WIDTH_STEP, head_step, with_heads, with_layers

Growing: TypeAlias = Literal["mbs", "seq", "layers", "params", "lora-rank"]

SEQUENCE_STEP: Final = 128
"""Sequences are tried in multiples of it: a tile of attention."""

MOST: Final = {"mbs": 2**20, "seq": 2**27, "layers": 10_000, "params": 2**16}
"""Where a search ends that nothing else ends."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The last value that fits and the first that does not.

    Attributes:
        quantity: what was varied.
        value: the largest (of devices: the smallest) that fits; None: none does.
        answer: its estimate; None where there is none.
        next_value: the value after it (of devices: before it); None where there is none.
        stopped_by: what stops that one, as a clause.
        tried: estimates made.
        notes: how the values were chosen.
    """

    quantity: str
    value: int | None
    answer: Estimate | None
    next_value: int | None
    stopped_by: str
    tried: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON takes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "quantity": self.quantity,
            "value": self.value,
            "estimate": self.answer.to_dict() if self.answer is not None else None,
            "next": {"value": self.next_value, "stopped_by": self.stopped_by},
            "tried": self.tried,
            "notes": list(self.notes),
        }


@dataclass(kw_only=True)
class _Trials:
    """Estimates by value, each made once."""

    weigh: Callable[[int], Estimate]
    made: dict[int, Estimate | InputError] = field(default_factory=dict)

    def __call__(self, value: int) -> Estimate | InputError:
        if value not in self.made:
            try:
                self.made[value] = self.weigh(value)
            except InputError as error:
                self.made[value] = error
        return self.made[value]

    def fits(self, value: int) -> bool:
        found = self(value)
        return not isinstance(found, InputError) and found.fits

    def stop(self, value: int | None) -> str:
        """What stops a value."""
        if value is None:
            return "nothing: the search ends there"
        found = self(value)
        if isinstance(found, InputError):
            return found.message
        memory = found.memory
        largest = max(memory.categories, key=lambda name: memory.categories[name])
        return (
            f"{format_bytes(-memory.headroom_bytes)} too much at: {memory.peak_instant}, stage "
            f"{memory.worst_stage}; most of it is {largest.replace('_', ' ')}, "
            f"{format_bytes(memory.categories[largest])}"
        )


def largest_fitting(
    quantity: Growing,
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None = None,
) -> Fit:
    """The largest value of a quantity at which a plan fits, everything else as it is.

    * ``mbs``: with a global batch, of its divisors; else any.
    * ``seq``: multiples of 128 that the context and tensor shards divide.
    * ``layers``: multiples of the pipeline's chunks, the model's pattern gone on with.
    * ``params``: width and depth grow alike (`with_heads`); the value is in parameters.
    * ``lora-rank``: up to the hidden size.

    Raises:
        InputError: even the smallest value is no plan.
    """
    check_nouns(architecture=architecture, plan=plan, cluster=cluster)
    values, weigh, note = _growing(quantity, architecture, plan, cluster, limits)
    trials = _Trials(weigh=weigh)
    first = trials(values[0])
    if isinstance(first, InputError):
        raise first
    index = _last(values, trials.fits)
    value = values[index] if index >= 0 else None
    after = values[index + 1] if index + 1 < len(values) else None
    answer = trials(value) if value is not None else None
    assert not isinstance(answer, InputError)
    counted = quantity == "params"
    following = trials(after) if after is not None else None
    return Fit(
        quantity=quantity,
        value=answer.model.parameters if counted and answer is not None else value,
        answer=answer,
        next_value=following.model.parameters
        if counted and isinstance(following, Estimate)
        else after,
        stopped_by=trials.stop(after),
        tried=len(trials.made),
        notes=(note,),
    )


def fewest_gpus(
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None = None,
) -> Fit:
    """The fewest devices that a plan fits on, up to those of the cluster.

    The plan's degrees stay and the data-parallel ranks shrink, so that sharding decides.
    Beyond one node only whole nodes are tried.

    Raises:
        InputError: no number of devices makes a plan of it.
    """
    check_nouns(architecture=architecture, plan=plan, cluster=cluster)
    free = dataclasses.replace(plan, dp=None)
    trials = _Trials(
        weigh=lambda count: estimate(architecture, free, cluster.override(gpus=count), limits)
    )
    legal = [
        count for count in _counts(plan, cluster) if _is_plan(architecture, free, cluster, count)
    ]
    if not legal:
        # One that is none says why.
        resolve(free, architecture, cluster)
        raise _no_count(plan, cluster)
    index = _last(legal, lambda count: not trials.fits(count)) + 1
    value = legal[index] if index < len(legal) else None
    before = legal[index - 1] if index else None
    answer = trials(value) if value is not None else None
    assert not isinstance(answer, InputError)
    return Fit(
        quantity="gpus",
        value=value,
        answer=answer,
        next_value=before,
        stopped_by=trials.stop(before) if before is not None else "nothing is smaller",
        tried=len(trials.made),
        notes=(
            "the plan's degrees stay and data parallelism shrinks; tonnage plan --objective gpus "
            "looks at every plan",
        ),
    )


def _counts(plan: Plan, cluster: Cluster) -> list[int]:
    """Devices that the model ranks divide: any within a node, then whole nodes."""
    ranks, node = plan.tp * plan.pp * plan.cp, cluster.gpus_per_node
    inside = range(ranks, min(node, cluster.gpus) + 1, ranks)
    step = math.lcm(ranks, node)
    beyond = range(step, cluster.gpus + 1, step) if cluster.gpus > node else range(0)
    return sorted({*inside, *beyond})


def _is_plan(architecture: Architecture, plan: Plan, cluster: Cluster, gpus: int) -> bool:
    try:
        resolve(plan, architecture, cluster.override(gpus=gpus))
    except InputError:
        return False
    return True


def _no_count(plan: Plan, cluster: Cluster) -> InputError:
    return InputError(
        field="gpus",
        value=cluster.gpus,
        problem=f"hold no plan of tp × pp × cp = {plan.tp * plan.pp * plan.cp} ranks",
        accepted="the most devices to consider",
    )


def _growing(
    quantity: Growing,
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    limits: Limits | None,
) -> tuple[Sequence[int], Callable[[int], Estimate], str]:
    """The values to try, smallest first, how to weigh one, and a note on the choice."""

    def planned(**fields: int) -> Estimate:
        changed = dataclasses.replace(plan, **fields)  # type: ignore[arg-type]
        return estimate(architecture, changed, cluster, limits)

    def sized(model: Architecture) -> Estimate:
        return estimate(model, plan, cluster, limits)

    if quantity == "mbs":
        note = "divisors of the global batch" if plan.gbs else "the global batch grows with it"
        return _micro_batches(plan, cluster), lambda value: planned(mbs=value), note
    if quantity == "seq":
        step = _sequence_step(plan)
        values = range(step, MOST["seq"], step)
        return values, lambda value: planned(seq=value), f"multiples of {step} tokens"
    if quantity == "lora-rank":
        ranks = range(1, architecture.hidden + 1)
        return ranks, lambda value: planned(lora_rank=value), "whole ranks"
    chunks = plan.pp * plan.vpp
    if quantity == "layers":
        values = range(chunks, MOST["layers"], chunks)
        return values, lambda value: sized(with_layers(architecture, value)), "the model's pattern"
    step = head_step(architecture, plan.tp)
    return (
        range(step, MOST["params"], step),
        lambda heads: sized(
            with_heads(architecture, heads, layer_step=chunks, width_step=WIDTH_STEP * plan.tp)
        ),
        "width and depth grow alike, in steps of whole groups of heads",
    )


def _micro_batches(plan: Plan, cluster: Cluster) -> Sequence[int]:
    if plan.gbs is None:
        return range(1, MOST["mbs"])
    share = max(1, plan.gbs // max(1, cluster.gpus // (plan.tp * plan.pp * plan.cp)))
    return divisors(share)


def _sequence_step(plan: Plan) -> int:
    shards = plan.cp * (plan.tp if plan.sp is not False else 1)
    return math.lcm(SEQUENCE_STEP, shards, 2 * plan.cp if plan.cp > 1 else 1)


def _last(values: Sequence[int], fits: Callable[[int], bool]) -> int:
    """The index of the last value that fits, of values that fit up to some point; -1: none.

    By doubling and then halving: few estimates for a long range.
    """
    if not fits(values[0]):
        return -1
    low, width = 0, 1
    while low + width < len(values) and fits(values[low + width]):
        low += width
        width *= 2
    high = min(low + width, len(values))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(values[middle]):
            low = middle
        else:
            high = middle
    return low
