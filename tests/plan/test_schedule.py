"""The orders of passes: each once, no stage waiting for itself, and PyTorch's own beside them."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.plan import Plan
from tonnage.plan.schedule import (
    SPLITS,
    Pass,
    chunks,
    least,
    order,
    per_chunk,
    places,
    seat,
    settled,
    streams,
)

SHORT = {"forward": "F", "backward": "X", "input": "B", "weight": "W"}


def plan_of(schedule: str, pp: int, vpp: int = 1, group: int | None = None) -> Plan:
    if schedule in ("zbv", "dualpipev"):
        vpp = 2
    return Plan(pp=pp, vpp=vpp, schedule=schedule, microbatch_group=group)  # type: ignore[arg-type]


def short(passes: tuple[Pass, ...]) -> list[str]:
    return [f"{SHORT[one.way]}{one.chunk}.{one.microbatch}" for one in passes]


@given(
    schedule=st.sampled_from(("1f1b", "gpipe", "zero-bubble", "zbv", "dualpipe", "dualpipev")),
    half=st.integers(1, 4),
    more=st.integers(0, 9),
)
def test_every_micro_batch_goes_once_through_every_chunk(
    schedule: str, half: int, more: int
) -> None:
    plan = plan_of(schedule, 2 * half)
    m = least(plan) + streams(plan) * more
    each = per_chunk(plan, m)
    for stage in range(plan.pp):
        passes = order(plan, stage, m)
        made = Counter((one.way, one.chunk, one.microbatch) for one in passes)
        assert set(made.values()) == {1}
        for chunk in range(chunks(plan)):
            for microbatch in range(each):
                here = {
                    one.way: position
                    for position, one in enumerate(passes)
                    if (one.chunk, one.microbatch) == (chunk, microbatch)
                }
                back = here.get("backward", here.get("input", -1))
                assert here["forward"] < back <= here.get("weight", back)
                assert ("weight" in here) == ("input" in here)
                assert ("backward" in here) != ("input" in here)
        assert (schedule in SPLITS) == any(one.way == "weight" for one in passes)


@pytest.mark.parametrize(
    ("schedule", "v"), [("1f1b", 1), ("interleaved", 3), ("dualpipev", 2), ("dualpipe", 1)]
)
def test_every_place_of_the_model_is_on_one_stage(schedule: str, v: int) -> None:
    plan = plan_of(schedule, 6, v)
    seats = Counter(
        seat(plan, stage, chunk) for stage in range(plan.pp) for chunk in range(chunks(plan))
    )
    assert set(seats.values()) == {1}
    for stream in range(streams(plan)):
        assert sorted(s.place for s in seats if s.stream == stream) == list(range(places(plan)))


def test_neighbours_of_a_v_meet_on_its_last_stage() -> None:
    plan = plan_of("dualpipev", 4)
    assert [seat(plan, 0, chunk).place for chunk in (0, 1)] == [0, 7]
    assert [seat(plan, 3, chunk).place for chunk in (0, 1)] == [3, 4]


def test_mirrored_stages_hold_the_same() -> None:
    plan = plan_of("dualpipe", 4)
    for stage in range(4):
        here, there = ({seat(plan, s, chunk).place for chunk in (0, 1)} for s in (stage, 3 - stage))
        assert here == there == {stage, 3 - stage}


class TestAgainstPyTorch:
    """The orders of torch.distributed.pipelining, asked without its communication."""

    @staticmethod
    def theirs(name: str, p: int, rank: int, m: int, v: int, group: int = 0) -> list[str]:
        schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
        kind = getattr(schedules, name, None)
        if kind is None:
            pytest.skip(f"this PyTorch has no {name}")
        stub = SimpleNamespace(
            pp_group_size=p,
            num_stages=p * v,
            _num_stages=p * v,
            n_local_stages=v,
            _n_microbatches=m,
            rank=rank,
            microbatches_per_round=group or p,
            number_of_rounds=m // (group or p),
        )

        def flat(actions: list[Any]) -> list[Any]:
            found = []
            for action in actions:
                if action is not None:
                    found += flat(list(action.sub_actions)) if action.sub_actions else [action]
            return found

        letters = {
            "FORWARD": "F",
            "FULL_BACKWARD": "X",
            "BACKWARD_INPUT": "B",
            "BACKWARD_WEIGHT": "W",
        }
        vee = "ZBV" in name or "DualPipeV" in name
        found = []
        for action in flat(kind._calculate_single_rank_operations(stub, rank)):
            down = action.stage_index < p
            chunk = int(not down) if vee else action.stage_index // p
            kind_of = letters[action.computation_type.name]
            found.append(f"{kind_of}{chunk}.{action.microbatch_index}")
        return found

    @pytest.mark.parametrize(("p", "m"), [(2, 4), (2, 9), (4, 8), (4, 15), (5, 12)])
    def test_dualpipev(self, p: int, m: int) -> None:
        for rank in range(p):
            mine = short(order(plan_of("dualpipev", p), rank, max(m, 2 * p)))
            assert mine == self.theirs("ScheduleDualPipeV", p, rank, max(m, 2 * p), 2)

    @pytest.mark.parametrize(("p", "m"), [(2, 3), (2, 9), (4, 7), (4, 15), (5, 12)])
    def test_zbv(self, p: int, m: int) -> None:
        for rank in range(p):
            mine = short(order(plan_of("zbv", p), rank, m))
            assert mine == self.theirs("ScheduleZBVZeroBubble", p, rank, m, 2)

    @pytest.mark.parametrize(("p", "m"), [(2, 2), (2, 9), (4, 4), (4, 7), (4, 15), (5, 12)])
    def test_zero_bubble(self, p: int, m: int) -> None:
        for rank in range(p):
            mine = short(order(plan_of("zero-bubble", p), rank, m))
            assert mine == self.theirs("ScheduleInterleavedZeroBubble", p, rank, m, 1)

    @pytest.mark.parametrize(
        ("p", "v", "m", "group"), [(2, 2, 4, 2), (4, 2, 8, 4), (4, 3, 12, 4), (2, 3, 12, 4)]
    )
    def test_interleaved(self, p: int, v: int, m: int, group: int) -> None:
        for rank in range(p):
            mine = short(order(plan_of("interleaved", p, v, group), rank, m))
            assert mine == self.theirs("ScheduleInterleaved1F1B", p, rank, m, v, group)


@given(
    schedule=st.sampled_from(("1f1b", "interleaved", "zero-bubble", "zbv", "dualpipe")),
    half=st.integers(1, 3),
    more=st.integers(1, 5),
    rest=st.integers(0, 1),
)
def test_a_settled_step_holds_what_a_longer_one_holds(
    schedule: str, half: int, more: int, rest: int
) -> None:
    plan = plan_of(schedule, 2 * half, 3 if schedule == "interleaved" else 1)
    m = plan.pp * 8 * more + (2 * rest if schedule == "dualpipe" else 0)

    def states(count: int, stage: int) -> set[tuple[int, ...]]:
        live: Counter[tuple[str, int]] = Counter()
        seen = set()
        for one in order(plan, stage, count):
            step = {"forward": 1, "backward": -1, "input": -1, "weight": 0}[one.way]
            live["kept", one.chunk] += step
            live["late", one.chunk] += {"input": 1, "weight": -1}.get(one.way, 0)
            seen.add(tuple(live[what, c] for what in ("kept", "late") for c in range(chunks(plan))))
        return seen

    for stage in range(plan.pp):
        assert states(settled(plan, m), stage) == states(m, stage)
