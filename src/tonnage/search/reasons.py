"""Why a plan is not the answer: illegal, too large, slower, or as good."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tonnage.errors import InputError
from tonnage.estimation import Estimate
from tonnage.plan import Plan
from tonnage.plan.schedule import CHUNKS
from tonnage.plan.words import flag_words
from tonnage.runtime import OFFLOADS, runtime
from tonnage.search.answer import Proposal
from tonnage.search.find import find_plans
from tonnage.search.neighbours import DERIVED, UNLAID
from tonnage.search.question import Question
from tonnage.search.refusal import refusal

Verdict: TypeAlias = Literal["illegal", "too large", "slower", "ties", "best"]

SAME = 1e-3
"""Step times that differ by less of themselves are one."""

_FREE = {**DERIVED, **UNLAID, "etp": None, "sp": None, "hsdp_shard": None}


@dataclass(frozen=True, kw_only=True)
class Reason:
    """What excludes the plans with some values.

    Attributes:
        verdict: in a word.
        text: in a sentence.
        parts: seconds of the best of them less those of the best plan, by part of a step.
        estimate: the best of them; None where none is legal.
    """

    verdict: Verdict
    text: str
    parts: Mapping[str, float]
    estimate: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """The reason as JSON takes it."""
        return dataclasses.asdict(self)


def why_not(question: Question, wanted: Mapping[str, Any], best: Proposal | None) -> Reason:
    """What excludes the plans that have the values that are asked about.

    The best of them is found first, so that the answer is not about a poor choice of the rest.

    Args:
        question: the search.
        wanted: values by knob.
        best: the plan that was found; None where nothing was.
    """
    kept = dataclasses.replace(question, choices={**question.choices, **_tuples(wanted)}, top=1)
    try:
        found = find_plans(kept)
    except InputError as refused:
        return Reason(
            verdict="illegal",
            text=_refusal(question, wanted, best, refused),
            parts={},
            estimate=None,
        )
    if found.plans:
        return _of_another_stack(_compared(found.plans[0], best), found.plans[0].plan)
    least = found.nearest
    if least is None:
        return Reason(
            verdict="slower", text="no such plan meets the limits", parts={}, estimate=None
        )
    memory = least.estimate.memory
    return Reason(
        verdict="too large",
        text=f"does not fit: even the one that needs least takes {_gib(-memory.headroom_bytes)} "
        f"more than the {_gib(memory.capacity_bytes)} there are"
        if memory.headroom_bytes < 0
        else "fits, but takes longer than the deadline or the budget allow",
        parts={},
        estimate=least.estimate,
    )


def _tuples(wanted: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {knob: (value,) for knob, value in wanted.items()}


def _compared(other: Proposal, best: Proposal | None) -> Reason:
    ours, answer = (best or other).estimate, other.estimate
    beside = ""
    if other.plan.held_on_host and not ours.plan.held_on_host:
        flags = " ".join(flag_words(_offloads(other.plan)))
        beside = f"; it takes {flags} to be that, or to fit at all"
    longer = answer.step.seconds - ours.step.seconds
    parts = {
        part: seconds - ours.step.breakdown[part]
        for part, seconds in answer.step.breakdown.items()
        if abs(seconds - ours.step.breakdown[part]) > SAME * ours.step.seconds
    }
    if best is None or other.plan == best.plan:
        return Reason(verdict="best", text="it is the best plan", parts={}, estimate=answer)
    share = longer / ours.step.seconds
    if abs(share) < SAME:
        text = "ties with the best plan: its step is as long"
        return Reason(verdict="ties", text=text, parts=parts, estimate=answer)
    if longer < 0:
        text = f"is faster by {-share:.1%}, but is not the best by what was asked for"
        return Reason(verdict="slower", text=text, parts=parts, estimate=answer)
    most = max(parts, key=lambda part: parts[part])
    text = f"slower by {share:.1%} ({longer:.3g} s a step), most of it {most.replace('_', ' ')}"
    text += beside
    return Reason(verdict="slower", text=text, parts=parts, estimate=answer)


def _offloads(plan: Plan) -> dict[str, Any]:
    """What of a plan lies in host memory."""
    return {field: value for field in OFFLOADS if (value := getattr(plan, field))}


def _of_another_stack(reason: Reason, plan: Plan) -> Reason:
    """A schedule that the runtime lacks is weighed where it is named, and not offered."""
    schedule = str(plan.schedule)
    if plan.pp == 1 or schedule in runtime(plan.runtime).schedules:
        return reason
    lacks = (
        f"{plan.runtime} has no schedule {schedule}: --schedule {schedule} weighs it all the same"
    )
    return dataclasses.replace(reason, text=f"{reason.text}; {lacks}")


def _refusal(
    question: Question, wanted: Mapping[str, Any], best: Proposal | None, refused: InputError
) -> str:
    """The error of the plan itself, which says more than that there is none."""
    known = {**_single(question), **wanted}
    # The best plan's chunks are not those of another schedule.
    chunks = CHUNKS.get(wanted.get("schedule", ""), 1)
    if "schedule" in wanted and chunks is not None:
        known = {"vpp": chunks, **known}
        wanted = {"vpp": chunks, **wanted}
    bases = [question.base, *([dataclasses.replace(best.plan, **_FREE)] if best else [])]
    for base, changes in itertools.product(bases, (wanted, known)):
        plan = dataclasses.replace(base, **changes)
        plan = dataclasses.replace(plan, recompute_modules=tuple(plan.recompute_modules))
        for cluster in question.clusters:
            error = refusal(plan, question, cluster)
            if error is not None:
                return f"not legal: {error.message}"
    return f"not legal: {refused.message}"


def _single(question: Question) -> dict[str, Any]:
    return {knob: values[0] for knob, values in question.choices.items() if len(values) == 1}


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
