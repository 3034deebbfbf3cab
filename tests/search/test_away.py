"""What a search leaves in host memory, and how it shares keys and values."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DENSE, MIXTURE, cluster
from tests.search.spaces import SHALLOW, every_weighed, question
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.estimation import Limits, estimate
from tonnage.plan import Plan, resolve
from tonnage.runtime import OFFLOADS, RUNTIMES
from tonnage.search import Question, find_plans, why_not
from tonnage.search.away import Away, ways
from tonnage.search.legality import exchanged
from tonnage.search.neighbours import neighbours
from tonnage.search.space import Space

NARROW: dict[str, tuple[Any, ...]] = {"cp": (1, 2), "vpp": (1,), "mbs": (1, 2), "loss": ("eager",)}
LEAN = {"recompute": ("none", "full"), "recompute_num_layers": (1,)}
LLAMA_70B = Question(
    architecture=load("llama-3.1-70b"),
    clusters=(parse_cluster("8xH100"),),
    base=Plan(gbs=8, seq=4096),
    choices={"tp": (8,), "pp": (1,), "mbs": (1,), "vpp": (1,), **LEAN},
)
"""Its states alone take 158 GiB of each device where none of them lies elsewhere."""


SMALL: dict[str, tuple[Any, ...]] = {
    **NARROW,
    "pp": (1, 2),
    "recompute": ("none", "full"),
    "recompute_num_layers": (1, 2),
}
SPACES: tuple[tuple[str, dict[str, tuple[Any, ...]]], ...] = (
    ("megatron", SMALL),
    ("megatron", {**SMALL, "cp_comm": ("a2a", "p2p", "allgather"), "tp": (1,), "mbs": (1,)}),
    ("fsdp2", {**SMALL, "pp": (1,)}),
    ("deepspeed", LEAN),
    ("torchtune", {"recompute": ("none", "full")}),
)


@cache
def every_plan(space: int) -> tuple[Question, np.ndarray, np.ndarray]:
    """One of the spaces: seconds and device bytes of all its plans, without bounds."""
    runtime, choices = SPACES[space]
    asked = question(runtime=runtime, choices=choices, offload=True)
    seconds, device = [], []
    for _, _, found in every_weighed(asked):
        seconds.append(found.seconds)
        device.append(found.device)
    return asked, np.concatenate(seconds), np.concatenate(device)


def test_the_states_that_leave_least_on_the_device_come_first() -> None:
    assert ways((False, True), (0.0, 1.0)) == (
        Away(parameters=True, optimizer=0.0),
        Away(parameters=False, optimizer=1.0),
        Away(parameters=False, optimizer=0.0),
    )


@pytest.mark.parametrize("space", range(len(SPACES)))
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_the_best_plan_is_that_of_all_plans_weighed(space: int, share: float) -> None:
    asked, seconds, device = every_plan(space)
    memory = int(device.min() + share * (device.max() - device.min()))
    found = find_plans(dataclasses.replace(asked, limits=Limits(memory_limit=memory)))
    fits = device <= memory
    assert found.space == len(seconds)
    best = found.plans[0].estimate
    assert best.step.seconds <= seconds[fits].min() * (1 + 1e-12)
    if not Space(question=asked, cluster=asked.clusters[0]).other_exchanges:
        assert best.step.seconds == pytest.approx(seconds[fits].min(), rel=1e-12)
    for point in found.frontier:
        assert not (fits & (seconds < point.seconds) & (device < point.device_bytes)).any()


def test_host_memory_is_used_where_nothing_fits_without() -> None:
    found = find_plans(LLAMA_70B)
    assert found.plans
    assert all(each.plan.offload_optimizer == 1.0 for each in found.plans)
    best = found.plans[0]
    assert best.estimate.fits
    again = estimate(LLAMA_70B.architecture, best.plan, LLAMA_70B.clusters[0])
    assert again.step == best.estimate.step
    assert again.memory == best.estimate.memory


def test_it_is_left_alone_where_it_is_not_to_be_used() -> None:
    without = find_plans(dataclasses.replace(LLAMA_70B, offload=False))
    assert not without.plans
    assert without.nearest is not None
    assert not without.nearest.plan.held_on_host


def test_the_nearest_plan_uses_all_that_there_is() -> None:
    tiny = dataclasses.replace(LLAMA_70B, limits=Limits(memory_limit=8 * 2**30))
    found = find_plans(tiny)
    assert not found.plans
    assert found.nearest is not None
    assert found.nearest.plan.offload_optimizer == 1.0


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_share_that_is_asked_for_is_kept(value: float) -> None:
    asked = question(choices={**SMALL, "offload_optimizer": (value,)})
    assert {each.plan.offload_optimizer for each in find_plans(asked).plans} == {value}


def test_more_choice_is_never_slower() -> None:
    asked = question(load("llama-3.1-8b"), gpus=4, gbs=8, seq=2048, choices={**NARROW, **LEAN})
    limits = Limits(memory_limit=40 * 2**30)
    times = {
        offload: find_plans(dataclasses.replace(asked, limits=limits, offload=offload)).plans
        for offload in (False, True)
    }
    assert times[True]
    if times[False]:
        plain, free = (times[name][0].estimate.step.seconds for name in (False, True))
        assert free <= plain * (1 + 1e-12)


def test_why_not_says_what_it_takes() -> None:
    answer = find_plans(question(choices=SMALL))
    asked = question(choices=SMALL)
    reason = why_not(asked, {"offload_optimizer": 1.0}, answer.plans[0])
    assert reason.verdict == "slower"
    assert "offload" in reason.parts
    assert "--offload-optimizer 1.0" in reason.text
    exchange = why_not(asked, {"cp_comm": "a2a", "cp": 2}, answer.plans[0])
    assert exchange.verdict in ("slower", "ties", "best")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_a_runtime_offers_is_modelled(runtime: str) -> None:
    """Each offload is an estimate at one of its ZeRO stages, and each exchange has its axis."""
    stack = RUNTIMES[runtime]
    for field in stack.offloads:
        assert field in OFFLOADS
        value = type(getattr(Plan, field))(1)
        plan = Plan(runtime=runtime, zero=max(stack.zero_stages), seq=128, **{field: value})
        assert estimate(DENSE, plan, cluster(4)).step.breakdown["offload"] >= 0
    if stack.exchanges:
        assert "cp" in stack.axes
        assert stack.cp_comm == stack.exchanges[0]


@pytest.mark.parametrize("architecture", [DENSE, MIXTURE, load("llama-3.1-8b")])
def test_heads_that_are_exchanged_stay_whole(architecture: Any) -> None:
    """As the checks of a plan have it, degree by degree."""
    gpus = 64
    degrees = [(tp, cp) for tp in (1, 2, 4, 8) for cp in (1, 2, 4, 8)]
    rows = {
        "tp": np.array([tp for tp, _ in degrees]),
        "cp": np.array([cp for _, cp in degrees]),
    }
    legal = exchanged(rows, "a2a", architecture)
    assert exchanged(rows, "p2p", architecture).all()
    for (tp, cp), allowed in zip(degrees, legal, strict=True):
        plans = [Plan(tp=tp, cp=cp, seq=256, cp_comm=kind) for kind in ("p2p", "a2a")]
        refused = [_refused(plan, architecture, gpus) for plan in plans]
        if not refused[0]:
            assert refused[1] == (not allowed and cp > 1), (tp, cp)


def _refused(plan: Plan, architecture: Any, gpus: int) -> bool:
    try:
        resolve(plan, architecture, cluster(gpus))
    except InputError:
        return True
    return False


def test_the_best_plans_have_their_best_exchange() -> None:
    asked = question(choices={**SMALL, "cp": (2,)})
    where = asked.clusters[0]
    found = find_plans(asked)
    for each in found.plans:
        for exchange in RUNTIMES["megatron"].exchanges:
            plan = dataclasses.replace(each.plan, cp_comm=exchange)
            if not _refused(plan, SHALLOW, where.gpus):
                other = estimate(SHALLOW, plan, where).step.seconds
                assert each.estimate.step.seconds <= other * (1 + 1e-12)
    beside = neighbours(asked, where, found.plans[0].estimate)
    assert {each.after for each in beside if each.knob == "cp_comm"} <= {"p2p", "a2a", "allgather"}
    assert any(each.knob == "cp_comm" for each in beside)
    assert any((each.knob, each.after) == ("offload", "optimizer") for each in beside)
