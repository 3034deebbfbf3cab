"""The best plan with one knob a step further, either way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tonnage.algebra import divisors
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import Estimate, estimate
from tonnage.plan import Plan
from tonnage.plan.schedule import CHUNKS
from tonnage.plan.words import recompute_text
from tonnage.search.answer import Neighbour
from tonnage.search.changes import kept_sp
from tonnage.search.question import Question
from tonnage.search.space import Space

Fields = dict[str, Any]

DERIVED: Fields = {"dp": None, "grad_acc": None}
"""What follows from the other degrees and the batch."""

UNLAID: Fields = {
    "schedule": None,
    "first_stage_layers": None,
    "last_stage_layers": None,
    "account_for_embedding": False,
    "account_for_loss": False,
}
"""What says how layers lie on stages, said by nobody."""

SPLITS: tuple[Fields, ...] = (
    {},
    {"account_for_embedding": True, "account_for_loss": True},
    {"account_for_embedding": True},
    {"account_for_loss": True},
)
"""How layers are laid over another number of stages: as evenly as a name can say."""


def neighbours(question: Question, cluster: Cluster, best: Estimate) -> tuple[Neighbour, ...]:
    """Every knob one step up and one down, weighed."""
    space = Space(question=question, cluster=cluster)
    found = []
    for knob, before, after, tries in _steps(space, best.plan):
        found.append(_weighed(question, cluster, best, (knob, before, after), tries))
    return tuple(found)


def _weighed(
    question: Question,
    cluster: Cluster,
    best: Estimate,
    named: tuple[str, str, str],
    tries: list[Fields],
) -> Neighbour:
    """The fastest of some ways to take one step."""
    error = ""
    answers: list[tuple[Estimate, Fields]] = []
    for fields in tries:
        plan = dataclasses.replace(best.plan, **{**DERIVED, **fields})
        try:
            answer = estimate(question.architecture, plan, cluster, question.limits)
        except InputError as refused:
            error = error or refused.message
            continue
        answers.append((answer, fields))
    knob, before, after = named
    if not answers:
        return Neighbour(
            knob=knob,
            before=before,
            after=after,
            fields=tries[0],
            seconds=None,
            bytes=None,
            fits=False,
            error=error,
        )
    answer, fields = min(answers, key=lambda each: (not each[0].fits, each[0].step.seconds))
    return Neighbour(
        knob=knob,
        before=before,
        after=after,
        fields=fields,
        seconds=answer.step.seconds - best.step.seconds,
        bytes=answer.memory.peak_bytes.device - best.memory.peak_bytes.device,
        fits=answer.fits,
        error="",
    )


def _steps(space: Space, plan: Plan) -> Iterator[tuple[str, str, str, list[Fields]]]:
    """Each knob with its value before and after, and ways to take the step."""
    gpus = space.cluster.gpus
    axes = {
        "tp": divisors(gpus),
        "cp": divisors(gpus),
        "ep": divisors(gpus) if space.question.architecture.is_moe else (1,),
        "mbs": divisors(plan.gbs or 1),
        "zero": space.runtime.zero_stages,
    }
    for knob, values in axes.items():
        if knob not in ("mbs", "zero") and knob not in space.runtime.axes:
            continue
        for value in _beside(values, getattr(plan, knob)):
            yield knob, str(getattr(plan, knob)), str(value), [_along(plan, knob, value)]
    if "pp" in space.runtime.axes:
        for value in _beside(divisors(gpus), plan.pp):
            yield "pp", str(plan.pp), str(value), [{**_free(value), **split} for split in SPLITS]
    if "vpp" in space.runtime.axes and plan.pp > 1:
        held = len(space.question.architecture.layers) // plan.pp + 1
        for value in _beside(tuple(range(1, held + 1)), plan.vpp):
            fields = {"vpp": value, "schedule": "interleaved" if value > 1 else "1f1b"}
            ways = [fields, *({**_free(plan.pp), **fields, **split} for split in SPLITS)]
            yield "vpp", str(plan.vpp), str(value), ways
    if plan.pp > 1:
        offered = dict.fromkeys((*space.runtime.schedules, *_chosen(space.question)))
        for schedule in offered:
            held = CHUNKS.get(schedule, 1) or max(plan.vpp, 2)
            # Between 1F1B and its interleaved form a step of vpp is the step.
            if schedule == plan.schedule or {schedule, plan.schedule} == {"1f1b", "interleaved"}:
                continue
            if held == 1 or "vpp" in space.runtime.axes:
                fields = {"schedule": schedule, "vpp": held}
                ways = [fields, *({**_free(plan.pp), **fields, **split} for split in SPLITS)]
                yield "schedule", str(plan.schedule), schedule, ways
    yield from _softer(space, plan)


def _chosen(question: Question) -> tuple[str, ...]:
    """The schedules that a search is kept to."""
    return tuple(question.choices.get("schedule", ()))


def _softer(space: Space, plan: Plan) -> Iterator[tuple[str, str, str, list[Fields]]]:
    """What changes no degree."""
    depth = plan.recompute_num_layers
    block = plan.recompute == "full" and plan.recompute_method == "block"
    now = recompute_text(plan)
    # What chose among parts or layers says nothing of another level.
    names = ("recompute_method", "recompute_num_layers", "recompute_modules")
    usual: Fields = {name: getattr(Plan, name) for name in names}
    ladder: list[Fields] = [
        {**usual, "recompute": level} for level in ("none", "selective", "full")
    ]
    if block:
        more = ({"recompute_num_layers": n} for n in (depth - 1, depth + 1) if n)
        ladder = [*more, *ladder]
    for fields in ladder:
        changed = dataclasses.replace(plan, **fields)
        if changed != plan and recompute_text(changed) != now:
            yield "recompute", now, recompute_text(changed), [fields]
    if plan.tp > 1 and "sp" in space.runtime.axes:
        yield "sp", _word(plan.sp), _word(not plan.sp), [{"sp": not plan.sp}]
    for loss in space.losses:
        if loss != plan.loss:
            yield "loss", str(plan.loss), loss, [{"loss": loss}]
    for exchange in space.runtime.exchanges if plan.cp > 1 else ():
        if exchange != plan.cp_comm:
            yield "cp_comm", str(plan.cp_comm), exchange, [{"cp_comm": exchange}]
    for field in space.runtime.offloads if space.question.offload else ():
        now = getattr(plan, field)
        other = type(now)(not now)
        name = field.removeprefix("offload_")
        words = (name, "none") if now else ("none", name)
        yield "offload", *words, [{field: other}]


def _along(plan: Plan, knob: str, value: int) -> Fields:
    """A degree with what goes with it."""
    fields: Fields = {knob: value, "hsdp_shard": None}
    if knob == "tp":
        fields |= {"sp": kept_sp(plan, value), "etp": 1 if plan.etp == 1 else None}
    return fields


def _free(stages: int) -> Fields:
    """So many stages, their layers laid anew."""
    return {**UNLAID, "pp": stages, "vpp": 1, "hsdp_shard": None}


def _beside(values: tuple[int, ...], value: int) -> list[int]:
    """The values next to one."""
    below = [other for other in values if other < value]
    above = [other for other in values if other > value]
    return below[-1:] + above[:1]


def _word(value: bool | None) -> str:
    return "on" if value else "off"
