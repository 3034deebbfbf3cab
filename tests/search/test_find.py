"""The best plan is the best: held to every plan of small spaces, and to what must hold."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.plan.strategies import DENSE, MIXTURE, cluster
from tests.search.spaces import SHALLOW, every_weighed, question
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.estimation import Limits, estimate
from tonnage.plan import Plan
from tonnage.search import KNOBS, Question, SearchAnswer, find_plans, why_not
from tonnage.search import excluded as excluding
from tonnage.search.hunt import Hunt
from tonnage.search.neighbours import neighbours
from tonnage.search.plainer import NEAR, plainness
from tonnage.search.question import NAMELESS
from tonnage.search.rank import Ranking

MIB = 2**20
NARROW: dict[str, tuple[Any, ...]] = {"cp": (1,), "mbs": (1, 2), "loss": ("eager",)}
"""A space small enough to weigh every plan of it."""


@cache
def weighed() -> tuple[Question, np.ndarray, np.ndarray]:
    """All plans of a space, without bounds: seconds and device bytes."""
    asked = question(choices=NARROW)
    seconds, device = [], []
    for _, _, found in every_weighed(asked):
        seconds.append(found.seconds)
        device.append(found.device)
    return asked, np.concatenate(seconds), np.concatenate(device)


def limited(asked: Question, memory: int | None) -> Question:
    return dataclasses.replace(asked, limits=Limits(memory_limit=memory))


@cache
def best_within(memory: int, **choices: Any) -> SearchAnswer:
    return find_plans(limited(question(choices={**NARROW, **choices}), memory))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 1.0])
def test_the_best_plan_is_that_of_all_plans_weighed(share: float) -> None:
    asked, seconds, device = weighed()
    memory = int(device.min() + share * (device.max() - device.min()))
    found = find_plans(limited(asked, memory))
    fits = device <= memory
    assert found.space == len(seconds)
    assert found.evaluated <= len(seconds)
    assert found.plans[0].estimate.step.seconds == pytest.approx(seconds[fits].min(), rel=1e-12)
    for point in found.frontier:
        beaten = fits & (seconds < point.seconds) & (device < point.device_bytes)
        assert not beaten.any()


@pytest.mark.parametrize("share", [0.02, 1.0])
def test_the_plan_with_most_headroom_is_that_of_all_plans_weighed(share: float) -> None:
    asked, _, device = weighed()
    memory = int(device.min() + share * (device.max() - device.min()))
    found = find_plans(limited(dataclasses.replace(asked, objective="headroom"), memory))
    assert found.plans[0].estimate.memory.peak_bytes.device == device.min()


@settings(max_examples=4)
@given(st.integers(0, 400), st.integers(0, 400))
def test_more_memory_never_makes_the_best_time_worse(less: int, more: int) -> None:
    asked, _, device = weighed()
    floor = int(device.min())
    small, large = sorted((floor + less * MIB // 80, floor + more * MIB // 80))
    times = [
        find_plans(limited(asked, memory)).plans[0].estimate.step.seconds
        for memory in (small, large)
    ]
    assert times[1] <= times[0] * (1 + 1e-12)


@settings(max_examples=6)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tp": st.sampled_from([(1,), (2, 4), (4,)]),
            "pp": st.sampled_from([(1,), (2,), (2, 4)]),
            "zero": st.sampled_from([(0,), (1,)]),
            "recompute": st.sampled_from([("none",), ("full",)]),
            "mbs": st.sampled_from([(1,), (2,)]),
        },
    )
)
def test_fixing_a_knob_never_improves_the_best(choices: dict[str, tuple[Any, ...]]) -> None:
    assume(min(choices.get("tp", (1,))) * min(choices.get("pp", (1,))) <= 4)
    _, _, device = weighed()
    memory = int(device.min()) + MIB
    free = best_within(memory).plans[0].estimate.step.seconds
    kept = find_plans(limited(question(choices={**NARROW, **choices}), memory))
    for each in kept.plans:
        assert each.estimate.step.seconds >= free * (1 - 1e-12)
        for knob, values in choices.items():
            assert getattr(each.plan, knob) in values


@pytest.mark.parametrize("runtime", ["megatron", "fsdp2"])
def test_a_larger_cluster_never_needs_more_memory_for_the_same_batch_a_gpu(runtime: str) -> None:
    """Of what is on devices: with all states on the host, NCCL's own buffers are what grows."""
    llama = load("llama-3.1-8b")
    kept = {"vpp": (1,), "cp": (1,), "recompute": ("none", "full"), "recompute_num_layers": (1,)}
    least = []
    for gpus in (8, 16, 32):
        asked = question(
            llama, gpus=gpus, gbs=gpus, runtime=runtime, seq=1024, choices=kept, offload=False
        )
        found = find_plans(dataclasses.replace(asked, objective="headroom", top=1))
        least.append(found.plans[0].estimate.memory.peak_bytes.device)
    assert least == sorted(least, reverse=True)


@pytest.mark.parametrize("architecture", [SHALLOW, MIXTURE], ids=lambda each: each.name)
@pytest.mark.parametrize("runtime", ["megatron", "nanotron", "fsdp2"])
def test_every_plan_returned_equals_its_own_estimate(architecture: Any, runtime: str) -> None:
    asked = question(architecture, runtime=runtime, top=4)
    found = find_plans(asked)
    assert found.plans
    for each in found.plans:
        alone = estimate(architecture, each.plan, asked.clusters[0])
        assert alone.step == each.estimate.step
        assert alone.memory == each.estimate.memory
        assert alone.fits
    for point in found.frontier:
        alone = estimate(architecture, point.plan, asked.clusters[0])
        assert alone.step.seconds == pytest.approx(point.seconds, rel=1e-9)
        assert alone.memory.peak_bytes.device <= point.device_bytes


@pytest.mark.parametrize("objective", ["time", "cost"])
def test_what_only_a_closed_bound_excludes_is_replayed(objective: Any) -> None:
    asked = question(runtime="nanotron", objective=objective, prices={"": 1.0}, top=2)
    best = find_plans(asked).plans[0].estimate
    assert best.fits_by == "replay"
    # Just as much memory as its replay needs, which its closed bound does not know.
    found = find_plans(limited(asked, best.memory.peak_bytes.device))
    assert found.replayed > 0
    assert found.plans[0].estimate.fits
    assert found.plans[0].estimate.step.seconds == pytest.approx(best.step.seconds, rel=1e-12)
    assert found.frontier[0].seconds == pytest.approx(best.step.seconds, rel=1e-12)
    assert found.feasible > 0


def test_where_nothing_is_replayed_a_closed_form_tells_what_fits() -> None:
    found = find_plans(question())
    assert found.replayed == 0
    assert {each.estimate.fits_by for each in found.plans} == {"closed form"}


def test_what_bounds_exclude_is_kept_by_its_floors() -> None:
    asked = question()
    found = find_plans(asked)
    assert 0 < len(found.excluded) <= 2 * excluding.MOST
    assert all(mark.device_bytes > 0 and not mark.good for mark in found.excluded)
    for mark in (found.excluded[0], found.excluded[-1]):
        words = re.sub(r"^\S+ ", "", mark.label).split()
        named: dict[str, str] = dict(zip(words[::2], words[1::2], strict=True))
        kept: dict[str, tuple[Any, ...]] = {"sp": (named.pop("sp") == "on",)}
        kept |= {name: (int(value),) for name, value in named.items()}
        best = find_plans(question(choices=kept, top=1)).plans[0].estimate
        assert best.step.seconds >= mark.seconds > 0
        assert best.memory.peak_bytes.device >= mark.device_bytes


def test_the_answer_is_json_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excluding, "MOST", 10)
    found = find_plans(question())
    assert len(found.excluded) <= 20
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["schema_version"] == 1
    assert data["plans"][0]["estimate"]["step"]["seconds"] == found.plans[0].estimate.step.seconds
    assert len(data["frontier"]) == len(found.frontier)
    assert not {"cloud", "excluded"} & data.keys()
    reason = why_not(question(), {"tp": 4, "mbs": 1}, found.plans[0]).to_dict()
    assert json.loads(json.dumps(reason))["verdict"] == reason["verdict"]


def test_the_plainest_of_equals_is_the_best() -> None:
    ranking = Ranking(question())
    keys = [ranking.key(0, 1.0, 5, 9, odd) for odd in (plainness(Plan(tp=2, sp=False)), 0)]
    assert keys[1] < keys[0]
    assert plainness(Plan(tp=2, sp=True)) == plainness(Plan(tp=2)) == plainness(Plan()) == 0
    assert plainness(Plan(tp=2, sp=False, vpp=2, first_stage_layers=3)) == 3


def test_what_is_as_good_and_plainer_is_told_and_is_a_neighbour() -> None:
    found = find_plans(question(load("llama-3.1-8b"), gpus=8, gbs=64, seq=4096, choices={
        "tp": (2,), "pp": (1,), "cp": (1,), "recompute": ("none",)}))  # fmt: skip
    best = found.plans[0]
    assert best.plan.sp is False
    (sp,) = (each for each in found.plainer if each.knob == "sp")
    assert (sp.before, sp.after, sp.fits) == ("off", "on", True)
    assert sp.seconds is not None
    assert 0 < sp.seconds < NEAR * best.estimate.step.seconds
    assert sp in found.neighbours


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (find_plans(question()) for _ in range(2))
    assert dataclasses.replace(first, seconds=0.0) == dataclasses.replace(second, seconds=0.0)


def test_plans_are_of_different_structure() -> None:
    found = find_plans(question(top=4))
    degrees = [(p.plan.tp, p.plan.pp, p.plan.cp, p.plan.ep) for p in found.plans]
    assert len(set(degrees)) == len(degrees) == 4
    times = [p.estimate.step.seconds for p in found.plans]
    assert times == sorted(times)


def several(**more: Any) -> Question:
    return dataclasses.replace(
        question(choices=NARROW), clusters=(cluster(8), cluster(2), cluster(4)), **more
    )


def test_fewest_gpus_are_the_smallest_cluster_that_will_do() -> None:
    assert find_plans(several(objective="gpus")).plans[0].estimate.cluster.gpus == 2
    hurry = several(objective="gpus", limits=Limits(steps=10))
    fastest = find_plans(dataclasses.replace(hurry, objective="time")).plans[0].estimate
    late = dataclasses.replace(hurry, deadline=fastest.step.seconds * 10)
    assert find_plans(late).plans[0].estimate.cluster.gpus == fastest.cluster.gpus


def test_no_cluster_is_looked_at_that_cannot_be_in_time_even_at_its_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = several(objective="gpus", limits=Limits(steps=10))
    free = find_plans(dataclasses.replace(asked, objective="time")).plans[0].estimate
    bound = free.step.lower_bound_seconds * free.cluster.gpus
    looked: list[int] = []
    run = Hunt.run

    def noted(hunt: Hunt) -> None:
        looked.append(hunt.space.cluster.gpus)
        run(hunt)

    monkeypatch.setattr(Hunt, "run", noted)
    # As long as two devices take at their peak, less a little: only more than two can do it.
    tight = dataclasses.replace(asked, deadline=0.999 * 10 * bound / 2)
    find_plans(dataclasses.replace(tight, fitting=False))
    assert looked[0] == 4


def test_a_missed_deadline_says_what_the_fastest_plan_takes() -> None:
    asked = several(limits=Limits(steps=10))
    fastest = find_plans(asked).plans[0].estimate
    late = dataclasses.replace(asked, deadline=0.9 * 10 * fastest.step.seconds)
    near = find_plans(late).nearest
    assert near is not None
    assert near.estimate.fits
    assert near.estimate.cluster.gpus == 8
    assert near.estimate.step.seconds >= fastest.step.seconds * (1 - 1e-12)


def test_the_cheapest_is_the_least_product_of_price_gpus_and_time() -> None:
    asked = several(objective="cost", prices={"": 2.0})
    best = find_plans(asked).plans[0]
    costs = []
    for where in asked.clusters:
        alone = find_plans(dataclasses.replace(asked, clusters=(where,), objective="time"))
        costs.append(2.0 * where.gpus * alone.plans[0].estimate.step.seconds / 3600.0)
    assert best.cost == pytest.approx(min(costs))


def test_a_budget_and_hosts_exclude_clusters() -> None:
    small = find_plans(several(max_nodes=1)).plans
    assert small
    with pytest.raises(InputError, match="max_nodes"):
        find_plans(several(max_nodes=0))
    poor = several(budget=1e-9, prices={"": 2.0}, limits=Limits(steps=10))
    found = find_plans(poor)
    assert not found.plans
    assert found.nearest is not None


def test_nothing_fits_says_what_is_nearest() -> None:
    _, _, device = weighed()
    asked = question(choices=NARROW)
    found = find_plans(limited(asked, int(device.min()) - MIB))
    assert not found.plans
    assert found.nearest is not None
    assert found.nearest.estimate.memory.peak_bytes.device == device.min()


@pytest.mark.parametrize(
    ("wanted", "verdict", "says"),
    [
        ({"tp": 3}, "illegal", "does not divide"),
        ({"tp": 4, "mbs": 1}, "slower", "slower by"),
        ({"ep": 2}, "illegal", "needs experts"),
    ],
)
def test_why_not_says_what_excludes_a_plan(wanted: dict[str, Any], verdict: str, says: str) -> None:
    asked = question()
    reason = why_not(asked, wanted, find_plans(asked).plans[0])
    assert reason.verdict == verdict
    assert says in reason.text


@pytest.mark.parametrize(
    ("wanted", "verdict", "says"),
    [
        ({"schedule": "dualpipe", "pp": 1}, "illegal", "even number"),
        ({"schedule": "dualpipe", "pp": 2, "mbs": 8}, "illegal", "4 or more, an even number"),
        ({"schedule": "zbv", "pp": 2, "mbs": 8}, "illegal", "3 or more"),
        ({"schedule": "zero-bubble", "pp": 2}, None, "megatron has no schedule zero-bubble"),
        ({"schedule": "1f1b", "pp": 2}, None, ""),
    ],
)
def test_why_not_says_what_a_schedule_asks_for(
    wanted: dict[str, Any], verdict: str | None, says: str
) -> None:
    asked = question()
    reason = why_not(asked, wanted, find_plans(asked).plans[0])
    assert verdict in (None, reason.verdict)
    assert says in reason.text
    assert ("has no schedule" in reason.text) == (says.startswith("megatron"))


def test_other_schedules_are_neighbours() -> None:
    asked = question(choices={"pp": (2,), "schedule": ("dualpipe", "1f1b")})
    best = find_plans(asked).plans[0].estimate
    found = {
        each.after for each in neighbours(asked, asked.clusters[0], best) if each.knob == "schedule"
    }
    assert found == {"dualpipe", "1f1b", "interleaved"} - {best.plan.schedule} - (
        {"interleaved"} if best.plan.schedule == "1f1b" else set()
    )


def test_why_not_says_by_how_much_a_plan_is_too_large() -> None:
    _, _, device = weighed()
    asked = limited(question(choices=NARROW), int(device.min()) + MIB)
    reason = why_not(asked, {"tp": 1, "pp": 1, "zero": 0}, find_plans(asked).plans[0])
    assert reason.verdict == "too large"
    assert "GiB more than" in reason.text


def test_why_not_of_the_best_plan_is_that_it_is_the_best() -> None:
    asked = question()
    best = find_plans(asked).plans[0]
    wanted = {name: getattr(best.plan, name) for name in ("tp", "pp", "cp", "mbs", "zero")}
    assert why_not(asked, wanted, best).verdict == "best"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"base": Plan()}, "gbs"),
        ({"choices": {"seq": (1,)}}, "seq"),
        ({"choices": {"tp": ()}}, "tp"),
        ({"top": 0}, "top"),
        ({"base": Plan(gbs=8, microbatch_group=4)}, "microbatch_group"),
        ({"deadline": 5.0}, "deadline"),
        ({"objective": "cost"}, "price"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        dataclasses.replace(question(), **change)
    assert refused.value.field == field


WRONG: tuple[Any, ...] = (0, -1, 1.5, float("nan"), float("inf"), "x", "", b"x", [], (), (None,))
WRONG = (*WRONG, {1: 2}, {"tp": 5}, {"tp": None}, {"loss": (None,)}, object(), True, None)
RIGHT: dict[str, tuple[Any, ...]] = {
    "prices": ({"tp": 5},),
    "deadline": (None,),
    "budget": (None,),
    "max_nodes": (None, 0, -1),
    "fitting": (True,),
    "offload": (True,),
    "span": (1.5,),
}
"""What of them a field may hold; a cluster within ``max_nodes`` is looked for later on."""


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Question)])
@pytest.mark.parametrize("value", WRONG, ids=lambda each: str(each).split(" at ")[0])
def test_a_field_of_a_wrong_kind_is_refused_by_name(field: str, value: Any) -> None:
    if any(value is right or value == right for right in RIGHT.get(field, ())):
        return
    with pytest.raises(InputError) as refused:
        dataclasses.replace(question(), **{field: value})
    names = {"base": "plan"}
    held = {str(key) for key in value} if isinstance(value, dict) else set()
    assert refused.value.field in {field, names.get(field), "cluster", *held}


@pytest.mark.parametrize("knob", [knob for knob in KNOBS if knob not in NAMELESS])
def test_no_value_is_none_of_a_knob_that_must_have_one(knob: str) -> None:
    with pytest.raises(InputError) as refused:
        question(choices={knob: (None,)})
    assert refused.value.field == knob


def test_a_space_without_a_legal_plan_is_refused() -> None:
    with pytest.raises(InputError, match="3 × 1 × 1 = 3 does not divide") as refused:
        find_plans(question(choices={"tp": (3,)}))
    assert "no plan with tp [3] is legal on" in refused.value.hint


@pytest.mark.parametrize("wanted", [{"tp": 3}, {"pp": 3}, {"tp": 3, "pp": 3}, {"cp": 5}])
def test_why_not_blames_no_value_that_nobody_named(wanted: dict[str, int]) -> None:
    """A degree of the best plan is nothing that was asked about."""
    asked = question(choices={"mbs": (1,)})
    best = find_plans(dataclasses.replace(asked, choices={"cp": (2,), "mbs": (1,)})).plans[0]
    assert best.plan.cp == 2
    text = why_not(asked, wanted, best).text
    product = math.prod(wanted.values())
    assert f" = {product} does not divide" in text


def test_an_interruption_gives_the_best_so_far() -> None:
    told = 0

    def interrupt(_: float) -> None:
        nonlocal told
        told += 1
        if told > 3:
            raise KeyboardInterrupt

    found = find_plans(question(), interrupt)
    assert not found.complete
    assert found.plans
    assert math.isfinite(found.plans[0].estimate.step.seconds)


def test_a_chunk_of_the_embedding_alone_is_weighed() -> None:
    plan = Plan(runtime="fsdp2", pp=3, vpp=3, gbs=6, seq=128, account_for_embedding=True)
    found = estimate(DENSE, plan, cluster(6))
    assert [stage.layers for stage in found.memory.stages] == [2, 3, 3]


def test_every_level_of_recomputation_is_a_neighbour() -> None:
    node = parse_cluster("8xH100")
    modules: tuple[Any, ...] = ("layernorm", "activation")
    plan = Plan(seq=4096, gbs=64, tp=2, recompute="selective", recompute_modules=modules)
    model = load("llama-3.1-8b")
    asked = Question(architecture=model, clusters=(node,), base=Plan(seq=4096, gbs=64))
    found = neighbours(asked, node, estimate(model, plan, node))
    levels = [each for each in found if each.knob == "recompute"]
    assert len(levels) >= 2
    assert all(each.error == "" and each.seconds is not None for each in levels)
