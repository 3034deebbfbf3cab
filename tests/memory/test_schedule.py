"""Micro-batches in flight: the closed forms against the orders that they come from."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_schedule import plan_of
from tonnage.memory.schedule import Held, course, fullest, live_per_chunk
from tonnage.plan import Plan
from tonnage.plan.schedule import least, streams

SIZES = [(p, stage, m) for p in (1, 2, 3, 4, 8) for stage in range(p) for m in (1, 2, 3, 8, 16)]


def most(plan: Plan, stage: int, m: int) -> int:
    """The most passes that are kept at once, counted in the order of passes."""
    return max(sum(held.kept) for _, held in course(plan, stage, m))


@pytest.mark.parametrize(("p", "stage", "m"), SIZES)
def test_one_forward_one_backward(p: int, stage: int, m: int) -> None:
    plan = Plan(pp=p, schedule="1f1b")
    assert live_per_chunk(plan, stage, m) == (min(p - stage, m),) == (most(plan, stage, m),)


@pytest.mark.parametrize("m", [1, 4, 9])
def test_gpipe(m: int) -> None:
    plan = Plan(pp=4, schedule="gpipe")
    assert live_per_chunk(plan, 2, m) == (m,) == (most(plan, 2, m),)


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("v", [2, 3, 4])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_interleaved(p: int, v: int, rounds: int) -> None:
    """``2(p - r - 1) + (v - 1)p + 1`` passes at once (arXiv 2104.04473, section 2.2)."""
    plan = plan_of("interleaved", p, v)
    for stage in range(p):
        passes = min(2 * (p - stage - 1) + (v - 1) * p + 1, rounds * p * v)
        assert sum(live_per_chunk(plan, stage, rounds * p)) == passes
        assert most(plan, stage, rounds * p) == passes


@pytest.mark.parametrize("p", [2, 3, 4, 8])
def test_zb_h1_keeps_a_micro_batch_for_each_stage(p: int) -> None:
    """Kept or waiting, p on every stage at the least (arXiv 2401.10241, section 2.3)."""
    plan = plan_of("zero-bubble", p)
    for stage in range(p):
        assert {held.all for held in fullest(plan, stage, 4 * p)} == {p}


@pytest.mark.parametrize("p", [2, 4, 8])
def test_dualpipe_keeps_one_micro_batch_more_than_stages(p: int) -> None:
    """``PP + 1`` of a stage of 1F1B's size (DualPipe's table), and no more on any."""
    plan = plan_of("dualpipe", p)
    held = [max(sum(one.kept) for one in fullest(plan, stage, 4 * p)) for stage in range(p)]
    assert max(held) == p + 1
    vee = plan_of("dualpipev", p // 2) if p > 2 else None
    if vee is not None:
        assert held[: p // 2] == [
            max(sum(one.kept) for one in fullest(vee, stage, 4 * p)) for stage in range(p // 2)
        ]


SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero-bubble", "zbv", "dualpipe", "dualpipev")


@given(
    schedule=st.sampled_from(SCHEDULES),
    half=st.integers(1, 3),
    v=st.integers(2, 4),
    wider=st.integers(0, 3),
    more=st.integers(0, 20),
    sizes=st.lists(st.integers(0, 1000), min_size=8, max_size=8),
)
def test_no_moment_of_the_order_holds_more_bytes(
    schedule: str, half: int, v: int, wider: int, more: int, sizes: list[int]
) -> None:
    """Whatever a chunk keeps, and whatever is left of it for its weights' gradients."""
    p = 2 * half
    group = p + wider if schedule == "interleaved" else None
    plan = plan_of(schedule, p, v if group else 1, group)
    m = least(plan) + streams(plan) * more
    if group is not None:
        m = group * (1 + more // 4) + (p + more % (wider + 1) if more % 2 and wider else 0)

    def weigh(held: Held) -> int:
        kept = sum(size * count for size, count in zip(sizes, held.kept, strict=False))
        late = sum(size * count for size, count in zip(sizes[4:], held.late, strict=False))
        return int(kept + late)

    for stage in range(p):
        closed = max(weigh(held) for held in fullest(plan, stage, m))
        replayed = max(weigh(held) for _, held in course(plan, stage, m))
        assert replayed <= closed
        if m >= 3 * p:
            assert replayed == closed


def test_in_symbols_it_is_the_smaller_of_both() -> None:
    m: Any = sympy.Symbol("m", positive=True, integer=True)
    (live,) = live_per_chunk(Plan(pp=4, schedule="1f1b"), 1, m)
    assert live == sympy.Min(3, m)
    assert live_per_chunk(Plan(pp=4, schedule="gpipe"), 1, m) == (m,)
