"""One plan on clusters of several sizes."""

from __future__ import annotations

import pytest

from tests.cli.running import run
from tonnage.arch import load
from tonnage.cluster import parse_clusters
from tonnage.errors import InputError
from tonnage.estimation import estimate
from tonnage.plan import Plan
from tonnage.search.scaling import ScalePoint, scaling

MODEL = load("llama-3.1-8b")


def table(gpus: str, plan: Plan, *, weak: bool = False) -> tuple[ScalePoint, ...]:
    return scaling(MODEL, plan, parse_clusters(gpus), weak=weak)


def test_strong_scaling_keeps_the_batch_and_loses_by_it() -> None:
    points = table("8..128xH100", Plan(tp=2, gbs=256))
    assert [point.gpus for point in points] == [8, 16, 32, 64, 128]
    assert {point.gbs for point in points} == {256}
    shares = [point.efficiency or 0.0 for point in points]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    for point in points:
        assert point.answer is not None
        assert point.answer.plan.dp == point.gpus // 2


def test_weak_scaling_grows_the_batch_and_keeps_more() -> None:
    weak = table("8..128xH100", Plan(tp=2, gbs=32), weak=True)
    strong = table("8..128xH100", Plan(tp=2, gbs=64))
    assert [point.gbs for point in weak] == [32, 64, 128, 256, 512]
    assert (weak[-1].efficiency or 0) > (strong[-1].efficiency or 0)
    assert (weak[-1].efficiency or 0) > 0.9


def test_each_row_is_an_estimate_of_its_own() -> None:
    plan = Plan(tp=2, gbs=64)
    points = table("8,32xH100", plan)
    alone = estimate(MODEL, plan, parse_clusters("32xH100")[0])
    assert points[1].answer == alone


def test_a_cluster_that_cannot_run_the_plan_says_why_in_its_row() -> None:
    points = table("8,24,64xH100", Plan(tp=2, gbs=32))
    assert points[1].answer is None
    assert "not a multiple of mbs 1 × dp 12" in points[1].refused
    assert points[2].answer is not None


def test_what_follows_from_the_cluster_is_not_taken() -> None:
    with pytest.raises(InputError, match="grad_acc: 4 follows from the number of GPUs"):
        table("8,16xH100", Plan(grad_acc=4))
    with pytest.raises(InputError, match="tp × pp × cp"):
        table("8,16xH100", Plan(tp=3))


def test_the_verb() -> None:
    words = ("scale", "llama-3.1-8b", "--gpus", "8,24,64xH100", "--tp", "2", "--gbs", "32")
    result = run(*words, "--json")
    assert result.code == 0
    found = result.json()
    assert found["scaling"] == "strong"
    assert [point["gpus"] for point in found["points"]] == [8, 24, 64]
    assert found["points"][1]["refused"]
    assert "seconds" not in found["points"][1]
    page = run(*words, "--weak", "--steps", "10", "--price", "2").out
    assert "weak: the global batch grows" in page
    assert "cost" in page
    assert run("scale", "llama-3.1-405b", "--gpus", "8,16xH100").code == 3
