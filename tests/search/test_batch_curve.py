"""Batch curves: what the knee and the limit of memory are, and that the lines are lines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.estimation import Limits, estimate
from tonnage.plan import Plan
from tonnage.search.batch_curve import KNEE, BatchCurve, batch_curve

MODEL = load("llama-3.1-8b")
CLUSTER = parse_cluster("8xH100")


@pytest.fixture(scope="module")
def curve() -> BatchCurve:
    return batch_curve(MODEL, Plan(tp=2, seq=2048), CLUSTER)


def test_the_limit_of_memory_is_the_last_that_fits(curve: BatchCurve) -> None:
    most = curve.largest_mbs
    assert most is not None
    for mbs, fits in ((most, True), (most + 1, False)):
        changed = dataclasses.replace(curve.answer.plan, mbs=mbs, grad_acc=1, gbs=None)
        assert estimate(MODEL, changed, CLUSTER).fits is fits


def test_the_global_batch_costs_a_fixed_part_and_so_much_a_sample(curve: BatchCurve) -> None:
    assert curve.line.error < 1e-6
    assert curve.line.fixed > 0
    for point in curve.whole:
        assert point.seconds == pytest.approx(
            curve.line.fixed + curve.line.per_sample * point.gbs, rel=1e-6
        )


def test_the_knee_is_where_most_of_the_throughput_is_reached(curve: BatchCurve) -> None:
    unit = (curve.answer.plan.dp or 1) * curve.answer.plan.mbs

    def share(batch: int) -> float:
        line = curve.line
        return batch * line.per_sample / (line.fixed + line.per_sample * batch)

    assert curve.knee % unit == 0
    assert share(curve.knee) >= KNEE
    assert curve.knee == unit or share(curve.knee - unit) < KNEE


def test_throughput_grows_with_the_batch(curve: BatchCurve) -> None:
    for points in (curve.micro, curve.whole):
        rates = [point.tokens_per_second for point in points]
        assert rates == sorted(rates)


def test_where_nothing_fits_there_is_no_limit_to_mark() -> None:
    limits = Limits(memory_limit=2**30)
    none = batch_curve(MODEL, Plan(tp=2), CLUSTER, limits)
    assert (none.largest_mbs, none.micro_knee, none.micro_line) == (None, None, None)
    assert len(none.micro) == 1


def test_interleaved_chunks_take_multiples_of_the_stages() -> None:
    plan = Plan(tp=2, pp=4, vpp=2, seq=2048)
    points = batch_curve(MODEL, plan, CLUSTER).whole
    assert [point.grad_acc for point in points][:3] == [4, 8, 16]


def test_the_verb(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    words = ("batch", "gpt2", "--gpus", "8xH100", "--seq", "512", "--memory-limit", "20GiB")
    found = run(*words, "--json", "--html", str(tmp_path / "curve.html")).json()
    assert found["micro_batch"]["largest_mbs"] >= found["micro_batch"]["knee_mbs"]
    assert "most that fits" in (tmp_path / "curve.html").read_text(encoding="utf-8")
    page = run(*words).out
    for mark in ("knee", "most that fits", "does not fit", "for each sequence of gbs"):
        assert mark in page
    assert run("batch", "gpt2", "--gpus", "1xH100", "--memory-limit", "1GiB").code == 3
    assert run(*words, "--html", str(tmp_path / "no" / "x.html")).code == 2
