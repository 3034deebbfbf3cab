"""The closed form of a pipeline's time beside its replay, pass by pass."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.plan import Plan
from tonnage.plan.schedule import chunks
from tonnage.timing.pipeline import pipeline_time
from tonnage.timing.replay import PassCost, replay, seconds


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


@dataclass(frozen=True)
class Work:
    """Seconds of a stage's micro-batch: forward, input's gradient, weights' gradients."""

    forward: float
    input: float
    weight: float

    @property
    def all(self) -> float:
        return self.forward + self.input + self.weight


def split_plan(schedule: str, p: int) -> Plan:
    return plan_of(schedule, p, 2 if schedule in ("zbv", "dualpipev") else 1)


def split_replayed(plan: Plan, works: list[Work], m: int) -> float:
    n = chunks(plan)
    costs = [
        [PassCost(forward=w.forward / n, backward=(w.input + w.weight) / n, weight=w.weight / n)]
        * n
        for w in works
    ]
    return seconds(replay(plan, costs, m))


def split_closed(plan: Plan, works: list[Work], m: int) -> float:
    time = pipeline_time(
        plan,
        [w.all for w in works],
        m,
        [w.forward for w in works],
        weight_seconds=[w.weight for w in works],
    )
    return float(time.busy + time.bubble)


SECONDS = st.integers(10, 30).map(lambda each: each / 10)


@given(p=st.integers(1, 8), more=st.integers(0, 12), f=SECONDS, b=SECONDS, w=SECONDS)
def test_zb_h1_idles_for_f_plus_b_less_w(p: int, more: int, f: float, b: float, w: float) -> None:
    """``(p - 1)(F + B - W)`` (arXiv 2401.10241, table 1), where W is no longer than the others."""
    m, w = p + more, min(f, b, w)
    plan, works = split_plan("zero-bubble", p), [Work(f, b, w)] * p
    expected = m * (f + b + w) + (p - 1) * (f + b - w)
    assert split_replayed(plan, works, m) == pytest.approx(expected, rel=1e-12)
    assert split_closed(plan, works, m) == pytest.approx(expected, rel=1e-12)


@given(half=st.integers(1, 4), more=st.integers(0, 6), b=SECONDS, w=SECONDS)
def test_dualpipe_idles_as_its_table_says(half: int, more: int, b: float, w: float) -> None:
    """``(PP/2 - 1)(F&B + B - 3W)``, PP stages, where F and the input's gradient last alike."""
    p, w = 2 * half, min(b, w)
    pair, whole = 2 * b + w, b + w
    plan, m = split_plan("dualpipe", p), 2 * (p + more)
    works = [Work(b, b, w)] * p
    chunk = 2 * b + w
    expected = m * chunk + (p / 2 - 1) * (pair + whole - 3 * w)
    # The replay's stages hold a chunk of each copy: half the micro-batches of twice the work.
    twice = [Work(2 * b, 2 * b, 2 * w)] * p
    assert split_replayed(plan, twice, m) == pytest.approx(expected, rel=1e-12)
    assert split_closed(plan, twice, m) == pytest.approx(expected, rel=1e-12)
    vee = split_plan("dualpipev", half)
    assert split_replayed(vee, twice[:half], m // 2) == pytest.approx(expected, rel=1e-12)
    assert works[0].all == chunk


@given(p=st.integers(1, 8), more=st.integers(0, 12), f=SECONDS, b=SECONDS, w=SECONDS)
def test_zbv_idles_for_its_longest_pass(p: int, more: int, f: float, b: float, w: float) -> None:
    """``(p - 1)`` times it, or twice what the input's gradient is longer than the weights'."""
    m, b = 2 * p - 1 + more, max(f, b)
    w = min(f, w)
    plan = split_plan("zbv", p)
    works = [Work(2 * f, 2 * b, 2 * w)] * p
    expected = 2 * m * (f + b + w) + (p - 1) * max(f, b, 2 * (b - w))
    assert split_replayed(plan, works, m) == pytest.approx(expected, rel=1e-12)
    assert split_closed(plan, works, m) == pytest.approx(expected, rel=1e-12)


GAPS = {"zero-bubble": (-0.01, 0.0), "zbv": (-0.07, 0.06), "dualpipev": (-0.07, 0.07)}
"""How far the closed form lies from the replay, for stages within a fifth of each other whose
forward is a quarter to a third of a micro-batch and whose weights' gradients are no longer."""


@pytest.mark.parametrize("schedule", GAPS)
@given(
    stages=NEAR,
    rounds=st.integers(2, 4),
    forward=st.floats(0.25, 0.35),
    weight=st.floats(0.2, 0.25),
)
def test_nearly_equal_stages_whose_backward_is_split(
    schedule: str, stages: list[float], rounds: int, forward: float, weight: float
) -> None:
    works = [Work(each * forward, each * (1 - forward - weight), each * weight) for each in stages]
    plan, m = split_plan(schedule, len(stages)), rounds * len(stages)
    gap = split_closed(plan, works, m) / split_replayed(plan, works, m) - 1
    low, high = GAPS[schedule]
    assert low <= gap <= high + 1e-9


def test_schedules_in_the_order_of_their_bubbles() -> None:
    """Eight equal stages, 32 micro-batches: the later the paper, the shorter the step."""
    works = [Work(1.0, 1.0, 1.0)] * 8
    found = {
        name: split_replayed(split_plan(name, 8), works, 32)
        for name in ("1f1b", "zero-bubble", "zbv")
    }
    assert found["1f1b"] > found["zero-bubble"] > found["zbv"]
    assert found["1f1b"] == 3 * (32 + 7)


@given(p=st.integers(2, 5), v=st.integers(2, 3), wider=st.integers(0, 3), rounds=st.integers(2, 3))
def test_a_wider_group_has_the_same_bubble(p: int, v: int, wider: int, rounds: int) -> None:
    """It holds more micro-batches, and gives sends more time."""
    m = rounds * (p + wider)
    plan = dataclasses.replace(plan_of("interleaved", p, v), microbatch_group=p + wider)
    expected = m * 3.0 * (1 + (p - 1) / (v * m))
    assert replayed(plan, [3.0] * p, m) == pytest.approx(expected, rel=1e-12)


def test_sends_lengthen_the_step() -> None:
    plan = plan_of("1f1b", 4)
    assert replayed(plan, [3.0] * 4, 8, send=0.1) > replayed(plan, [3.0] * 4, 8)


@given(
    schedule=st.sampled_from(("1f1b", "gpipe", "zero-bubble", "zbv", "dualpipev")),
    runs=st.lists(
        st.tuples(st.integers(1, 4), st.floats(0.5, 4.0), st.floats(0.2, 0.5)),
        min_size=1,
        max_size=5,
    ),
    more=st.integers(0, 12),
)
def test_runs_of_equal_stages_count_as_if_listed(
    schedule: str, runs: list[tuple[int, float, float]], more: int
) -> None:
    counts = [count for count, _, _ in runs]
    every = [(work, work * share) for count, work, share in runs for _ in range(count)]
    plan, m = split_plan(schedule, len(every)), 2 * len(every) + more

    def time(stages: list[tuple[float, float]], counts: list[int] | None) -> float:
        works, ahead = [work for work, _ in stages], [forward for _, forward in stages]
        late = [work / 5 for work in works]
        found = pipeline_time(plan, works, m, ahead, counts, weight_seconds=late)
        return float(found.busy + found.bubble)

    short = [(work, work * share) for _, work, share in runs]
    assert time(short, counts) == pytest.approx(time(every, None), rel=1e-12)
