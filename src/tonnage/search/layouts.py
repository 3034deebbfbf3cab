"""Every way to lay a model's layers over pipeline stages, each once, as arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonnage.arch import Architecture
from tonnage.errors import InputError, NotModelledError
from tonnage.plan import Plan
from tonnage.plan.check_schedule import check_schedule
from tonnage.plan.layout import chunk_sizes
from tonnage.plan.plan import Schedule
from tonnage.plan.schedule import CHUNKS, SPLITS, VEES, chunks, least, places, seat, streams
from tonnage.runtime import Runtime
from tonnage.search.question import Question

Ints = NDArray[np.int64]

ACCOUNTS = ("account_for_embedding", "account_for_loss")
ENDS = ("first_stage_layers", "last_stage_layers")

SCHEDULES: tuple[Schedule, ...] = ("1f1b", "gpipe", "interleaved", *SPLITS)
"""In the order in which they are tried."""


@dataclass(frozen=True, kw_only=True)
class Deck:
    """The layouts of one pipeline: so many stages, virtual stages, and one schedule.

    Bounds look at the stages that can be the slowest or the fullest: the first, the second,
    the last but one and the last, of the first half where the second mirrors it. Those between
    hold as many layers as their neighbours.

    Attributes:
        pp: pipeline stages.
        vpp: virtual stages of each.
        schedule: in which order micro-batches pass.
        stages: the stages that are looked at.
        fields: what a plan says of the end stages, of each layout.
        start: the first layer of each chunk, ``[layout, stage, chunk]``.
        size: layers of each chunk, ``[layout, stage, chunk]``.
    """

    pp: int
    vpp: int
    schedule: Schedule
    stages: tuple[int, ...]
    fields: tuple[dict[str, Any], ...]
    start: Ints
    size: Ints

    def __len__(self) -> int:
        """How many layouts."""
        return len(self.fields)

    @cached_property
    def shape(self) -> Plan:
        """The pipeline without its layers."""
        return Plan(pp=self.pp, vpp=self.vpp, schedule=self.schedule)

    def holders(self, place: int) -> tuple[int, ...]:
        """Which of the stages that are looked at hold a piece of the model; -1 is the last."""
        wanted = place % places(self.shape)
        return tuple(
            position
            for position, stage in enumerate(self.stages)
            if wanted in _places(self.shape, stage)
        )

    def orders(self, microbatches: Ints) -> NDArray[np.bool_]:
        """Whether the schedule has an order for so many micro-batches of a step.

        As `tonnage.plan.check_schedule.check_microbatches` has it, of rounds of ``pp``.
        """
        legal: NDArray[np.bool_] = microbatches >= least(self.shape)
        legal &= microbatches % streams(self.shape) == 0
        if self.schedule == "interleaved":
            legal &= microbatches % self.pp == 0
        return legal

    @cached_property
    def longest(self) -> Ints:
        """Layers of each layout's longest chunk."""
        longest: Ints = self.size.max(axis=(1, 2))
        return longest

    def plan_fields(self, index: int) -> dict[str, Any]:
        """The fields of a plan that say what one layout is."""
        named = {"pp": self.pp, "vpp": self.vpp, "schedule": self.schedule}
        return named | self.fields[index]

    def take(self, chosen: slice) -> Deck:
        """The same pipeline with some of its layouts."""
        return dataclasses.replace(
            self, fields=self.fields[chosen], start=self.start[chosen], size=self.size[chosen]
        )


def decks(question: Question, profile: Runtime, pp: int) -> Iterator[Deck]:
    """The legal layouts of so many stages, those named by an even split first.

    An even split, one in which the embedding or the loss takes a layer's place, and every
    first and last stage that leave the others equal. Of names for one split one is kept.
    """
    layers = len(question.architecture.layers)
    most = layers // pp + 1 if pp > 1 and "vpp" in profile.axes else 1
    for vpp in range(1, most + 1):
        if not question.allows("vpp", vpp):
            continue
        named = _named(question, profile, pp, vpp)
        solved = _solved(question, pp, vpp, [sizes for _, sizes in named])
        if not named and not solved:
            continue
        for schedule in _schedules(question, profile, pp, vpp):
            # A V has both ends of the model on its first stage: no field says how long they are.
            ends = [] if schedule in VEES else solved
            sizes = [_sizes(pp, vpp, layers, *pair) for pair in ends]
            if named or ends:
                yield _deck(
                    Plan(pp=pp, vpp=vpp, schedule=schedule),
                    [fields for fields, _ in named] + [_end_fields(pp, layers, e) for e in ends],
                    np.array([found for _, found in named] + sizes, dtype=np.int64),
                )


def _places(shape: Plan, stage: int) -> list[int]:
    """The pieces of the model that a stage holds, by chunk."""
    return [seat(shape, stage, chunk).place for chunk in range(chunks(shape))]


def _deck(shape: Plan, fields: list[dict[str, Any]], sizes: Ints) -> Deck:
    """Sizes come as ``[layout, round, stage]``, in the order that layers run."""
    pp = shape.pp // streams(shape)
    flat = sizes.reshape(len(sizes), -1)
    start = np.cumsum(flat, axis=1) - flat
    stages = tuple(sorted({0, min(1, pp - 1), max(pp - 2, 0), pp - 1}))
    held = np.array([_places(shape, stage) for stage in stages])
    return Deck(
        pp=shape.pp,
        vpp=shape.vpp,
        schedule=shape.schedule or "1f1b",
        stages=stages,
        fields=tuple(fields),
        start=start[:, held],
        size=flat[:, held],
    )


def _schedules(question: Question, profile: Runtime, pp: int, vpp: int) -> tuple[Schedule, ...]:
    """Those that the runtime has; any that is legal, if it is asked for.

    1F1B and its interleaved form are common to all. On one stage the others that cut backward
    passes in two are 1F1B by another name.
    """
    common = ("1f1b", "interleaved", *profile.schedules)
    found = []
    for schedule in SCHEDULES:
        wanted = CHUNKS.get(schedule, 1)
        fitting = vpp == wanted if wanted else vpp > 1
        single = pp == 1 and schedule in SPLITS
        if not fitting or single or not (schedule in common or "schedule" in question.choices):
            continue
        if question.allows("schedule", schedule) and _legal(question.base, pp, vpp, schedule):
            found.append(schedule)
    return tuple(found)


def _legal(base: Plan, pp: int, vpp: int, schedule: Schedule) -> bool:
    if schedule not in SPLITS:
        return True
    try:
        check_schedule(dataclasses.replace(base, pp=pp, vpp=vpp, schedule=schedule))
    except (InputError, NotModelledError):
        return False
    return True


def _named(
    question: Question, profile: Runtime, pp: int, vpp: int
) -> list[tuple[dict[str, Any], list[list[int]]]]:
    """The splits that a runtime makes by itself, with the embedding and the loss counted or not."""
    found: list[tuple[dict[str, Any], list[list[int]]]] = []
    if not all(question.allows(name, None) for name in ENDS):
        return found
    for embedding in (False, True):
        for loss in (False, True):
            fields: dict[str, Any] = dict(zip(ACCOUNTS, (embedding, loss), strict=True))
            if not all(question.allows(name, value) for name, value in fields.items()):
                continue
            plan = dataclasses.replace(question.base, pp=pp, vpp=vpp, **fields)
            try:
                sizes = chunk_sizes(question.architecture, plan, profile.pipeline_split)
            except InputError:
                continue
            if sizes not in [other for _, other in found]:
                found.append((fields, sizes))
    return found


def _solved(
    question: Question, pp: int, vpp: int, named: list[list[list[int]]]
) -> list[tuple[int, int]]:
    """First and last stages that leave a multiple of vpp to each of the others.

    The sums are solved for, and nothing is tried out.
    """
    layers = len(question.architecture.layers)
    if pp == 1 or question.base.pipeline_layout is not None:
        return []
    if not all(question.allows(name, False) for name in ACCOUNTS):
        return []
    known = {(sum(r[0] for r in sizes), sum(r[-1] for r in sizes)) for sizes in named if vpp == 1}
    even = layers / pp
    found = []
    for middle in range(vpp, layers, vpp):
        ends = layers - (pp - 2) * middle
        for first in range(vpp, ends, vpp):
            pair = first, ends - first
            if pair not in known and pair != (even, even) and _allows_ends(question, pp, pair):
                found.append(pair)
        if pp == 2:
            break
    return [pair for pair in found if pair[1] % vpp == 0]


def _allows_ends(question: Question, pp: int, pair: tuple[int, int]) -> bool:
    if not any(name in question.choices for name in ENDS):
        return True
    fields = _end_fields(pp, len(question.architecture.layers), pair)
    return all(question.allows(name, fields.get(name)) for name in ENDS)


def _end_fields(pp: int, layers: int, pair: tuple[int, int]) -> dict[str, Any]:
    """An end that has the even share of what the other leaves need not be named."""
    first, last = pair
    if pp == 2 or (layers - first) == (pp - 1) * last:
        return {"first_stage_layers": first}
    if (layers - last) == (pp - 1) * first:
        return {"last_stage_layers": last}
    return {"first_stage_layers": first, "last_stage_layers": last}


def _sizes(pp: int, vpp: int, layers: int, first: int, last: int) -> list[list[int]]:
    middle = (layers - first - last) // (pp - 2) if pp > 2 else 0
    stage = [first, *[middle] * (pp - 2), last]
    return [[count // vpp for count in stage]] * vpp


def kind_prefix(architecture: Architecture) -> Ints:
    """Layers of each kind before each position, ``[kind, position]``."""
    kinds = list(architecture.kinds())
    number = {kind: index for index, kind in enumerate(kinds)}
    held = np.zeros((len(kinds), len(architecture.layers) + 1), dtype=np.int64)
    for position, layer in enumerate(architecture.layers):
        held[number[layer], position + 1] = 1
    counted: Ints = held.cumsum(axis=1)
    return counted
