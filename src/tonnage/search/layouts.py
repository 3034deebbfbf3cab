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
from tonnage.errors import InputError
from tonnage.plan.layout import chunk_sizes
from tonnage.runtime import Runtime
from tonnage.search.question import Question

Ints = NDArray[np.int64]

ACCOUNTS = ("account_for_embedding", "account_for_loss")
ENDS = ("first_stage_layers", "last_stage_layers")


@dataclass(frozen=True, kw_only=True)
class Deck:
    """The layouts of one pipeline: so many stages, virtual stages, and one schedule.

    Bounds look at the stages that can be the slowest or the fullest: the first, the second,
    the last but one and the last. Those between hold as many layers as their neighbours.

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
    schedule: str
    stages: tuple[int, ...]
    fields: tuple[dict[str, Any], ...]
    start: Ints
    size: Ints

    def __len__(self) -> int:
        """How many layouts."""
        return len(self.fields)

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
        sizes = [_sizes(pp, vpp, layers, *ends) for ends in solved]
        for schedule in _schedules(question, profile, vpp):
            yield _deck(
                (pp, vpp, schedule),
                [fields for fields, _ in named] + [_end_fields(pp, layers, e) for e in solved],
                np.array([found for _, found in named] + sizes, dtype=np.int64),
            )


def _deck(key: tuple[int, int, str], fields: list[dict[str, Any]], sizes: Ints) -> Deck:
    """Sizes come as ``[layout, round, stage]``, in the order that layers run."""
    pp, vpp, schedule = key
    flat = sizes.reshape(len(sizes), -1)
    start = (np.cumsum(flat, axis=1) - flat).reshape(sizes.shape)
    stages = tuple(sorted({0, min(1, pp - 1), max(pp - 2, 0), pp - 1}))
    return Deck(
        pp=pp,
        vpp=vpp,
        schedule=schedule,
        stages=stages,
        fields=tuple(fields),
        start=start[:, :, stages].transpose(0, 2, 1),
        size=sizes[:, :, stages].transpose(0, 2, 1),
    )


def _schedules(question: Question, profile: Runtime, vpp: int) -> tuple[str, ...]:
    """GPipe is legal under every runtime, but most have no such schedule: only if asked for."""
    offered: tuple[str, ...] = ("interleaved",)
    if vpp == 1:
        gpipe = "gpipe" in profile.schedules or "schedule" in question.choices
        offered = ("1f1b", "gpipe") if gpipe else ("1f1b",)
    return tuple(schedule for schedule in offered if question.allows("schedule", schedule))


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
