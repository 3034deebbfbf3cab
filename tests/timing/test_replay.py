"""The closed form of a pipeline's time beside its replay, pass by pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.plan import Plan
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.replay import PassCost, replay, schedule_order, seconds


def plan_of(schedule: str, pp: int, vpp: int = 1) -> Plan:
    return Plan(pp=pp, vpp=vpp, schedule=schedule)  # type: ignore[arg-type]


def replayed(plan: Plan, stages: list[float], m: int, send: float = 0.0) -> float:
    """Stages of so many seconds a micro-batch, a third of it forward."""
    costs = [
        [PassCost(forward=each / 3 / plan.vpp, backward=2 * each / 3 / plan.vpp)] * plan.vpp
        for each in stages
    ]
    return seconds(replay(plan, costs, m, send))


def closed(plan: Plan, stages: list[float], m: int) -> float:
    time = pipeline_time(plan, stages, m, [each / 3 for each in stages])
    return float(time.busy + time.bubble)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("p", [1, 2, 4, 7])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_equal_stages(schedule: str, p: int, m: int) -> None:
    """``(m + p - 1)`` micro-batches' time, GPipe and 1F1B alike (arXiv 2104.04473, 2.2.1)."""
    plan = plan_of(schedule, p)
    assert replayed(plan, [3.0] * p, m) == pytest.approx((m + p - 1) * 3.0, rel=1e-12)
    assert closed(plan, [3.0] * p, m) == pytest.approx((m + p - 1) * 3.0, rel=1e-12)


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 2), (2, 3, 8), (4, 2, 4), (4, 5, 12)])
def test_interleaving_divides_the_bubble(p: int, v: int, m: int) -> None:
    """``(p - 1) / (v·m)`` of the work (arXiv 2104.04473, section 2.2)."""
    plan = plan_of("interleaved", p, v)
    expected = m * 3.0 * (1 + (p - 1) / (v * m))
    assert replayed(plan, [3.0] * p, m) == pytest.approx(expected, rel=1e-12)
    assert closed(plan, [3.0] * p, m) == pytest.approx(expected, rel=1e-12)


STAGES = st.lists(st.integers(1, 9).map(float), min_size=1, max_size=5)


@given(stages=STAGES, m=st.integers(1, 9))
def test_unequal_stages_under_gpipe(stages: list[float], m: int) -> None:
    """A flow shop of equal jobs: one pass through all, and the slowest for the others."""
    plan = plan_of("gpipe", len(stages))
    assert replayed(plan, stages, m) == pytest.approx(closed(plan, stages, m), rel=1e-12)


@given(stages=STAGES, rounds=st.integers(2, 4))
def test_unequal_stages_under_1f1b(stages: list[float], rounds: int) -> None:
    """Never faster than the closed form, which is a lower bound, and close to it."""
    plan = plan_of("1f1b", len(stages))
    m = rounds * len(stages)
    real, form = replayed(plan, stages, m), closed(plan, stages, m)
    assert form * (1 - 1e-9) <= real <= 1.2 * form


NEAR = st.lists(st.integers(8, 10).map(float), min_size=2, max_size=6)


@given(stages=NEAR, rounds=st.integers(1, 4))
def test_nearly_equal_stages_under_1f1b(stages: list[float], rounds: int) -> None:
    """Stages within a fifth of each other, as layouts make them."""
    plan = plan_of("1f1b", len(stages))
    m = rounds * len(stages)
    assert closed(plan, stages, m) == pytest.approx(replayed(plan, stages, m), rel=0.02)


@given(stages=NEAR, v=st.integers(2, 3), rounds=st.integers(2, 4))
def test_nearly_equal_interleaved_stages(stages: list[float], v: int, rounds: int) -> None:
    plan = plan_of("interleaved", len(stages), v)
    m = rounds * len(stages)
    real, form = replayed(plan, stages, m), closed(plan, stages, m)
    assert real <= form * (1 + 1e-9) <= 1.15 * real


@given(p=st.integers(1, 5), v=st.integers(1, 3), rounds=st.integers(1, 3))
def test_every_pass_once(p: int, v: int, rounds: int) -> None:
    plan = plan_of("interleaved" if v > 1 else "1f1b", p, v)
    m = rounds * p
    for stage in range(p):
        order = list(schedule_order(plan, stage, m))
        assert len(set(order)) == len(order) == 2 * m * v


def test_sends_lengthen_the_step() -> None:
    plan = plan_of("1f1b", 4)
    assert replayed(plan, [3.0] * 4, 8, send=0.1) > replayed(plan, [3.0] * 4, 8)
