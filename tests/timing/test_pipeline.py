"""The closed form of a pipeline's time beside a replay of its passes, one after another."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.test_schedule import Pass, gpipe, interleaved, one_forward_one_backward
from tonnage.plan import Plan
from tonnage.timing.pipeline import pipeline_time

Order = list[Pass]


def replay(orders: list[Order], forward: list[float], backward: list[float]) -> float:
    """Seconds until every stage has run its passes in its own order; sends cost nothing.

    A forward pass waits for the same micro-batch's pass through the chunk before, a backward
    pass for that through the chunk after; the last chunk's backward waits for its forward.
    """
    stages, chunks = len(orders), max(chunk for _, chunk in orders[0]) + 1
    ends: dict[tuple[str, int, int, int], float] = {}
    clock = [0.0] * stages
    done = [0] * stages
    seen = [{(way, c): 0 for way in ("forward", "backward") for c in range(chunks)} for _ in orders]
    while any(done[s] < len(orders[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            if done[s] == len(orders[s]):
                continue
            way, chunk = orders[s][done[s]]
            batch = seen[s][way, chunk]
            place = chunk * stages + s
            waits = ("forward", place - 1) if way == "forward" else ("backward", place + 1)
            if way == "backward" and place == chunks * stages - 1:
                waits = ("forward", place)
            key = (waits[0], waits[1] % stages, waits[1] // stages, batch)
            if waits[1] >= 0 and key not in ends:
                continue
            cost = (forward if way == "forward" else backward)[s] / chunks
            clock[s] = max(clock[s], ends.get(key, 0.0)) + cost
            ends[way, s, chunk, batch] = clock[s]
            seen[s][way, chunk] += 1
            done[s] += 1
            moved = True
        assert moved, "the schedule waits for itself"
    return max(clock)


def closed(plan: Plan, forward: list[float], backward: list[float], m: int) -> float:
    time = pipeline_time(plan, [f + b for f, b in zip(forward, backward, strict=True)], m)
    return float(time.busy + time.bubble)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("m", [1, 2, 4, 8, 13])
def test_equal_stages(p: int, m: int) -> None:
    """1F1B and GPipe alike: ``(m + p - 1)(f + b)``."""
    forward, backward = [1.0] * p, [2.0] * p
    flush = [list(one_forward_one_backward(p, stage, m)) for stage in range(p)]
    assert replay(flush, forward, backward) == closed(Plan(pp=p), forward, backward, m)
    everything = [list(gpipe(m)) for _ in range(p)]
    plan = Plan(pp=p, schedule="gpipe")
    assert replay(everything, forward, backward) == closed(plan, forward, backward, m)
    assert closed(plan, forward, backward, m) == (m + p - 1) * 3.0


@pytest.mark.parametrize(
    ("p", "v", "rounds"), list(itertools.product([2, 3, 4], [2, 3], [1, 2, 3]))
)
def test_equal_interleaved_stages(p: int, v: int, rounds: int) -> None:
    m = rounds * p
    forward, backward = [1.0] * p, [2.0] * p
    orders = [list(interleaved(p, v, stage, m)) for stage in range(p)]
    expected = closed(Plan(pp=p, vpp=v, schedule="interleaved"), forward, backward, m)
    assert replay(orders, forward, backward) == pytest.approx(expected, rel=1e-12)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 9),
)
def test_unequal_stages_under_gpipe(costs: list[int], m: int) -> None:
    """A flow shop of equal jobs: one pass through all, and the slowest for the others."""
    forward = [float(cost) for cost in costs]
    backward = [2 * cost for cost in forward]
    orders = [list(gpipe(m)) for _ in costs]
    plan = Plan(pp=len(costs), schedule="gpipe")
    assert replay(orders, forward, backward) == closed(plan, forward, backward, m)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 9),
)
def test_unequal_stages_under_1f1b_are_never_slower_than_the_closed_form(
    costs: list[int], m: int
) -> None:
    """Its forward passes run ahead of the first backward, so that an early stage waits less."""
    forward = [float(cost) for cost in costs]
    backward = [2 * cost for cost in forward]
    p = len(costs)
    orders = [list(one_forward_one_backward(p, stage, m)) for stage in range(p)]
    seconds = replay(orders, forward, backward)
    slowest = 3.0 * m * max(forward)
    assert slowest <= seconds <= closed(Plan(pp=p), forward, backward, m)
    if costs[-1] == max(costs):
        assert seconds == closed(Plan(pp=p), forward, backward, m)


@given(
    runs=st.lists(
        st.tuples(st.integers(1, 4), st.floats(0.5, 4.0), st.floats(0.2, 0.5)),
        min_size=1,
        max_size=5,
    ),
    m=st.integers(1, 12),
)
def test_runs_of_equal_stages_count_as_if_listed(
    runs: list[tuple[int, float, float]], m: int
) -> None:
    counts = [count for count, _, _ in runs]
    every = [(work, work * share) for count, work, share in runs for _ in range(count)]
    plan = Plan(pp=len(every), schedule="1f1b")
    listed = pipeline_time(plan, [w for w, _ in every], m, [f for _, f in every])
    short = pipeline_time(plan, [w for _, w, _ in runs], m, [w * s for _, w, s in runs], counts)
    assert short.busy == listed.busy
    assert short.bubble == pytest.approx(listed.bubble, rel=1e-12, abs=1e-12)
