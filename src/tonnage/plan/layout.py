"""Which layers each pipeline stage holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

from tonnage.algebra import divisors
from tonnage.arch import Architecture, Layer
from tonnage.errors import InputError
from tonnage.plan.layout_text import chunk_layers
from tonnage.plan.plan import Plan
from tonnage.plan.schedule import VEES, chunks, places, seat
from tonnage.plan.split import split_by_cost
from tonnage.runtime import SplitRule


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One pipeline stage: its model chunks (one without interleaving) and what is at its ends.

    Attributes:
        index: position in the pipeline, 0 first.
        chunks: the layers of each virtual stage, in the order that they run.
        embedding: whether it holds the token embedding.
        head: whether it holds the final norm, the head and the loss.
    """

    index: int
    chunks: tuple[tuple[Layer, ...], ...]
    embedding: bool
    head: bool

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the stage."""
        return tuple(layer for chunk in self.chunks for layer in chunk)

    @property
    def holds(self) -> tuple[tuple[tuple[Layer, ...], ...], bool, bool]:
        """All of it but where it lies."""
        return self.chunks, self.embedding, self.head

    def kinds(self) -> dict[Layer, int]:
        """Each distinct layer and how often the stage holds it."""
        return dict(self._kinds)

    @cached_property
    def _kinds(self) -> Counter[Layer]:
        return Counter(self.layers)


def stages(architecture: Architecture, plan: Plan, split: SplitRule = "even") -> tuple[Stage, ...]:
    """Split the layers over the stages.

    * ``even``: as Megatron's options do. Which pieces of the model a stage holds follows from
      the schedule (`tonnage.plan.schedule.seat`).
    * ``by-cost``: `split_by_cost`; a plan that gives layers of an end stage overrides it.

    Raises:
        InputError: the layers cannot be split so.
    """
    sizes = list(chain.from_iterable(chunk_sizes(architecture, plan, split)))
    ends = list(accumulate(sizes))
    pieces = [architecture.layers[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    held = [
        [seat(plan, stage, chunk).place for chunk in range(chunks(plan))]
        for stage in range(plan.pp)
    ]
    return tuple(
        Stage(
            index=index,
            chunks=tuple(pieces[place] for place in here),
            embedding=0 in here,
            head=places(plan) - 1 in here,
        )
        for index, here in enumerate(held)
    )


def alike(layout: Sequence[Stage]) -> tuple[range, ...]:
    """Runs of neighbouring stages that hold the same: their places in the pipeline."""
    starts = [
        place
        for place, stage in enumerate(layout)
        if not place or layout[place - 1].holds != stage.holds
    ]
    return tuple(map(range, starts, (*starts[1:], len(layout))))


def chunk_sizes(
    architecture: Architecture, plan: Plan, split: SplitRule = "even"
) -> list[list[int]]:
    """Layers of each piece of the model, in rounds of one a stage, as `stages` splits them.

    Raises:
        InputError: the layers cannot be split so.
    """
    given = plan.first_stage_layers is not None or plan.last_stage_layers is not None
    given = given or plan.pipeline_layout is not None
    if split == "by-cost" and plan.vpp == 1 and not given:
        return [split_by_cost(architecture, plan.pp)]
    return _sizes(len(architecture.layers), plan)


def _sizes(layers: int, plan: Plan) -> list[list[int]]:
    if plan.pp > layers:
        raise InputError(
            field="pp",
            value=plan.pp,
            problem=f"is more than the {layers} layers",
            accepted=f"1 to {layers}",
        )
    if plan.pipeline_layout is not None:
        pieces = places(plan)
        flat = chunk_layers(plan.pipeline_layout, layers=layers, chunks=pieces)
        return [flat[start : start + plan.pp] for start in range(0, pieces, plan.pp)]
    slots = _stage_slots(layers, plan)
    for count in slots:
        if count % plan.vpp:
            raise InputError(
                field="vpp",
                value=plan.vpp,
                problem=f"does not divide the {count} layers of a pipeline stage",
                accepted=divisors_text(count),
            )
    sizes = [[count // plan.vpp for count in slots] for _ in range(plan.vpp)]
    sizes[0][0] -= plan.account_for_embedding
    sizes[-1][-1] -= plan.account_for_loss
    if min(sizes[0][0], sizes[-1][-1]) < 0:
        raise InputError(
            field="pp",
            value=plan.pp,
            problem="leaves no layer's place on an end stage for the embedding and the loss",
            accepted="fewer stages, or no account_for_embedding and account_for_loss",
        )
    return sizes


def _stage_slots(layers: int, plan: Plan) -> list[int]:
    """Places of each stage; the embedding and the loss take one where they are counted."""
    _check_ends(layers, plan)
    ends = {0: plan.first_stage_layers, plan.pp - 1: plan.last_stage_layers}
    given = {stage: count for stage, count in ends.items() if count is not None}
    places = layers + plan.account_for_embedding + plan.account_for_loss
    rest, free = places - sum(given.values()), plan.pp - len(given)
    if free == 0 and rest == 0:
        return [given[stage] for stage in range(plan.pp)]
    if free <= 0 or rest < free or rest % free:
        raise _uneven(layers, places, rest, free, plan)
    return [given.get(stage, rest // free) for stage in range(plan.pp)]


def _check_ends(layers: int, plan: Plan) -> None:
    """Counts of an end stage mean something with two stages, and nothing beside counted ends."""
    for field, accounts in (
        ("first_stage_layers", plan.account_for_embedding),
        ("last_stage_layers", plan.account_for_loss),
    ):
        value = getattr(plan, field)
        if value is None:
            continue
        if plan.schedule in VEES:
            raise InputError(
                field=field,
                value=value,
                problem=f"is of one end, and {plan.schedule} has both on the first stage",
                accepted="a pipeline_layout",
            )
        if plan.pp == 1 and value != layers:
            raise InputError(
                field=field,
                value=value,
                problem=f"is not all {layers} layers, and there is one stage",
                accepted=f"{layers}, or pp of 2 and more",
            )
        if accounts:
            raise InputError(
                field=field,
                value=value,
                problem="is given beside an account of the embedding or the loss",
                accepted="one of the two",
            )


def _ends_hint(layers: int, stages: int) -> str:
    """Two end stages that make the others equal, and not heavier than these where it can be."""
    if stages < 3:
        return f"--first-stage-layers {layers - layers // 2}"
    middle = -(-layers // stages)
    ends = layers - middle * (stages - 2)
    if ends < 2:
        middle -= 1
        ends = layers - middle * (stages - 2)
    first = -(-ends // 2)
    return f"--first-stage-layers {first} --last-stage-layers {ends - first}"


def _uneven(layers: int, places: int, rest: int, free: int, plan: Plan) -> InputError:
    if plan.first_stage_layers is not None or plan.last_stage_layers is not None:
        return InputError(
            field="first_stage_layers, last_stage_layers",
            value=f"{plan.first_stage_layers}, {plan.last_stage_layers}",
            problem=f"leave {rest} of {layers} layers for {free} other stages",
            accepted="counts that leave the other stages an equal number of layers",
        )
    counted = " (with the embedding and loss that take a place)" if places != layers else ""
    hint = _ends_hint(layers, plan.pp)
    if places == layers and (layers + 2) % plan.pp == 0:
        hint = "--account-for-embedding --account-for-loss make it even"
    return InputError(
        field="pp",
        value=plan.pp,
        problem=f"does not divide the {places} layers{counted}",
        accepted=divisors_text(places),
        hint=hint,
    )


def divisors_text(number: int, limit: int | None = None) -> str:
    """The divisors of a number as an error lists them: ``1, 2, 4, 8, 16 or 32``."""
    shown = [str(d) for d in divisors(number) if limit is None or d <= limit]
    if len(shown) > 16:
        shown = [*shown[:8], "…", *shown[-4:]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
