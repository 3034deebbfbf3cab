"""The space holds the plans that resolve lets pass, and no others."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, HYBRID, MIXTURE
from tests.search.spaces import every_candidate, question
from tonnage.algebra import divisors
from tonnage.arch import Architecture
from tonnage.errors import InputError
from tonnage.plan import Plan, resolve
from tonnage.plan.check_schedule import check_microbatches, check_schedule
from tonnage.plan.plan import Schedule
from tonnage.plan.schedule import CHUNKS, SPLITS
from tonnage.search import Question
from tonnage.search.batch import batches
from tonnage.search.modes import modes
from tonnage.search.pieces import plan_of_row
from tonnage.search.space import Space

MODELS = {model.name: model for model in (DENSE, GPT, MIXTURE, DEEPSEEK, HYBRID)}
STACKS = ("megatron", "nanotron", "fsdp2", "ddp", "megatron-2022")
GPUS = 24
DEGREES = st.sampled_from([1, 2, 3, 4, 6, 8])


@cache
def space_of(name: str, runtime: str) -> Space:
    asked = question(MODELS[name], gpus=GPUS, runtime=runtime, gbs=48, seq=96)
    return Space(question=asked, cluster=asked.clusters[0])


@cache
def row_set(name: str, runtime: str, pp: int, sp: bool) -> frozenset[tuple[int, ...]]:
    space = space_of(name, runtime)
    if pp not in space.pipelines or sp not in space.sequence_parallel():
        return frozenset()
    rows = space.rows(pp, sp=sp)
    names = ("tp", "cp", "ep", "etp", "mbs")
    return frozenset(zip(*(rows[n].tolist() for n in names), strict=True))


@given(
    name=st.sampled_from(sorted(MODELS)),
    runtime=st.sampled_from(STACKS),
    degrees=st.tuples(DEGREES, DEGREES, DEGREES, DEGREES, DEGREES),
    pp=DEGREES,
    sp=st.booleans(),
)
@settings(max_examples=400)
def test_rows_are_the_degrees_that_resolve_lets_pass(
    name: str, runtime: str, degrees: tuple[int, ...], pp: int, sp: bool
) -> None:
    space = space_of(name, runtime)
    tp, cp, ep, etp, mbs = degrees
    sp = sp and tp > 1
    # An even split of the layers is another matter: one end takes what is left.
    layers = len(space.question.architecture.layers)
    uneven: dict[str, Any] = {"first_stage_layers": layers - (pp - 1)} if 1 < pp <= layers else {}
    fields: dict[str, Any] = {"tp": tp, "cp": cp, "ep": ep, "etp": etp, "mbs": mbs, "pp": pp}
    plan = dataclasses.replace(space.base, **fields, **uneven, sp=sp)
    try:
        resolve(plan, space.question.architecture, space.cluster)
    except InputError:
        legal = False
    else:
        legal = True
    assert (degrees in row_set(name, runtime, pp, sp)) == legal


@pytest.mark.parametrize("architecture", [DENSE, MIXTURE], ids=lambda each: each.name)
@pytest.mark.parametrize("runtime", ["megatron", "nanotron", "fsdp2"])
def test_every_plan_of_a_space_is_legal_and_counted_once(
    architecture: Architecture, runtime: str
) -> None:
    asked = question(architecture, gpus=4, runtime=runtime, gbs=8)
    assert_legal_and_counted_once(asked)


@pytest.mark.parametrize("schedule", SPLITS)
@pytest.mark.parametrize("runtime", ["megatron", "fsdp2"])
def test_plans_of_a_schedule_are_legal_and_counted_once(runtime: str, schedule: str) -> None:
    choices: dict[str, tuple[Any, ...]] = {"schedule": (schedule,), "recompute": ("none",)}
    asked = question(MIXTURE, gpus=4, runtime=runtime, gbs=12, choices=choices)
    assert_legal_and_counted_once(asked)


@pytest.mark.parametrize("schedule", SPLITS)
@pytest.mark.parametrize("pp", [2, 4])
def test_a_schedule_has_an_order_for_what_the_checks_let_pass(schedule: Schedule, pp: int) -> None:
    asked = question(DENSE, gpus=24, gbs=24, choices={"schedule": (schedule,)})
    decks = Space(question=asked, cluster=asked.clusters[0]).decks(pp)
    vpp = CHUNKS.get(schedule) or 1
    for count in range(1, 4 * pp):
        plan = Plan(pp=pp, vpp=vpp, schedule=schedule)
        try:
            check_schedule(plan)
            check_microbatches(plan, count)
        except InputError:
            legal = False
        else:
            legal = True
        assert any(deck.orders(np.array([count]))[0] for deck in decks) == legal


def test_a_schedule_is_offered_where_the_stack_has_it_or_it_is_named() -> None:
    def offered(runtime: str, choices: dict[str, tuple[Any, ...]]) -> set[str]:
        asked = question(DENSE, gpus=4, runtime=runtime, choices=choices)
        space = Space(question=asked, cluster=asked.clusters[0])
        return {deck.schedule for pp in (1, 2, 4) for deck in space.decks(pp)}

    usual = {"1f1b", "interleaved"}
    assert offered("megatron", {}) == usual
    assert offered("mindspeed", {}) == usual | {"dualpipev"}
    assert offered("fsdp2", {}) == usual | {"gpipe", "zero-bubble", "zbv", "dualpipev"}
    assert offered("megatron", {"schedule": ("dualpipe", "1f1b")}) == {"dualpipe", "1f1b"}
    odd = question(DENSE, gpus=24, gbs=24, choices={"schedule": ("dualpipe",)})
    assert not Space(question=odd, cluster=odd.clusters[0]).decks(3)


def assert_legal_and_counted_once(asked: Question) -> None:
    architecture = asked.architecture
    seen = set()
    count = 0
    for group in every_candidate(asked):
        space = group.choice.batch.space
        count += len(group.seconds)
        fields = group.choice.fields(group.rows)
        for row in range(len(group.seconds)):
            if group.choice.hsdp:
                fields["hsdp_shard"] = int(group.rows["shard"][row])
            plan = plan_of_row(space, fields, group.rows, row)
            seen.add(plan)
            if len(seen) % 17 == 0:
                resolve(plan, architecture, asked.clusters[0])
    assert len(seen) == count > 0
    space = Space(question=asked, cluster=asked.clusters[0])
    assert sum(batch.size for batch in batches(space)) == count


def test_layouts_are_all_splits_with_equal_middle_stages() -> None:
    asked = question(DENSE, gpus=4)
    space = Space(question=asked, cluster=asked.clusters[0])
    (deck,) = (deck for deck in space.decks(4) if deck.vpp == 1)
    sizes = {tuple(deck.size[layout, :, 0].tolist()) for layout in range(len(deck))}
    layers = len(DENSE.layers)
    wanted = {
        (first, middle, middle, layers - first - 2 * middle)
        for middle in range(1, layers)
        for first in range(1, layers)
        if layers - first - 2 * middle > 0
    }
    # Counting the embedding and the loss as layers can make other splits.
    assert wanted <= sizes
    assert len(sizes) == len(deck)


@pytest.mark.parametrize("longest", [1, 2, 5])
def test_depths_reach_from_one_layer_to_all(longest: int) -> None:
    found = modes(question(), longest)
    uniform = [m["recompute_num_layers"] for m in found if m.get("recompute_method") == "uniform"]
    block = [m["recompute_num_layers"] for m in found if m.get("recompute_method") == "block"]
    assert uniform == list(range(1, longest + 1))
    assert block == list(range(1, longest))


@given(st.integers(1, 5000))
def test_divisors_divide(number: int) -> None:
    assert list(divisors(number)) == [n for n in range(1, number + 1) if number % n == 0]


def test_choices_keep_a_knob_to_its_values() -> None:
    asked = question(choices={"tp": (2, 4), "pp": (1, 2), "mbs": (2,)})
    space = Space(question=asked, cluster=asked.clusters[0])
    assert space.pipelines == (1, 2)
    for pp in space.pipelines:
        for sp in space.sequence_parallel():
            rows = space.rows(pp, sp=sp)
            assert set(np.unique(rows["tp"])) <= {2, 4}
            assert set(np.unique(rows["mbs"])) <= {2}
