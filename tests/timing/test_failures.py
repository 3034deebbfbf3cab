"""Young's and Daly's intervals, and the time of a run beside one that is played out."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.timing.failures import daly_interval, expected_seconds, young_interval


def total(interval: float, *, write: float, restart: float, mtbf: float) -> float:
    return expected_seconds(1e6, interval=interval, write=write, restart=restart, mtbf=mtbf)


@given(write=st.floats(0.1, 600), mtbf=st.floats(3600, 1e7), factor=st.floats(0.1, 10).map(float))
def test_no_interval_is_much_better_than_dalys(write: float, mtbf: float, factor: float) -> None:
    """His is an approximation to the minimum of his own equation 20."""
    best = daly_interval(write, mtbf)
    other = total(best * factor, write=write, restart=60, mtbf=mtbf)
    assert total(best, write=write, restart=60, mtbf=mtbf) <= other * 1.0005


def test_dalys_interval_becomes_youngs_where_failures_are_rare() -> None:
    assert daly_interval(1.0, 1e8) == pytest.approx(young_interval(1.0, 1e8), rel=1e-3)
    assert young_interval(2.0, 100.0) == 20.0
    assert daly_interval(300.0, 100.0) == 100.0  # a checkpoint of more than 2 M


def test_rare_failures_cost_their_parts() -> None:
    """To first order: checkpoints δ/τ, and for each failure half a piece and a restart."""
    write, restart, mtbf, interval = 10.0, 300.0, 1e6, 2000.0
    expected = 1e6 * (1 + write / interval) + (1e6 / mtbf) * (interval / 2 + restart)
    assert total(interval, write=write, restart=restart, mtbf=mtbf) == pytest.approx(
        expected, rel=1e-3
    )


def test_what_never_ends_is_infinite() -> None:
    assert math.isinf(total(1e6, write=1.0, restart=1.0, mtbf=1.0))


@pytest.mark.parametrize("mtbf", [500.0, 2000.0])
def test_the_form_is_the_mean_of_runs_that_are_played_out(mtbf: float) -> None:
    work, interval, write, restart = 20_000.0, 200.0, 20.0, 50.0
    draw = random.Random(3)

    def played() -> float:
        clock, done = 0.0, 0
        fails = draw.expovariate(1 / mtbf)
        while done < work / interval:
            if clock + interval + write <= fails:
                clock, done = clock + interval + write, done + 1
                continue
            clock = fails
            fails = clock + draw.expovariate(1 / mtbf)
            while fails < clock + restart:  # a restart fails as well
                clock, fails = fails, fails + draw.expovariate(1 / mtbf)
            clock += restart
        return clock

    mean = sum(played() for _ in range(400)) / 400
    form = expected_seconds(work, interval=interval, write=write, restart=restart, mtbf=mtbf)
    assert mean == pytest.approx(form, rel=0.03)
