"""What would shorten a step is found by its largest parts, and has been estimated."""

from __future__ import annotations

import dataclasses

import pytest

from tests.cli.running import run
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.estimation import estimate
from tonnage.plan import Plan
from tonnage.search import Advice, advice
from tonnage.search.advice import _RULES
from tonnage.timing import PARTS


def asked(model: str, gpus: str, plan: Plan) -> tuple[Advice, ...]:
    architecture, cluster = load(model), parse_cluster(gpus)
    return advice(architecture, cluster, estimate(architecture, plan, cluster))


def test_every_part_of_a_step_has_rules() -> None:
    assert set(_RULES) == set(PARTS)


def test_a_tensor_parallel_group_that_crosses_nodes_is_told_to_stay_inside() -> None:
    found = asked("gpt3-175b", "64xA100", Plan(tp=16, pp=4, gbs=64, seq=2048))
    reasons = {each.part: each for each in found}
    assert "tensor_parallel" in reasons
    worst = reasons["tensor_parallel"]
    assert "tp 16 crosses domains of 8" in worst.why
    assert worst.share > 0.2
    assert any(each.change.fields.get("tp") == 8 for each in found)


def test_layers_that_are_too_small_for_the_host_are_told_of_graphs() -> None:
    found = asked("gpt2", "8xH100", Plan(seq=512))
    assert any(each.part == "host" and "cuda_graphs" in each.change.fields for each in found)


PLANS = [
    ("llama-3.1-8b", "8xH100", Plan(tp=2, seq=8192, gbs=32)),
    ("llama-3.1-70b", "64xH100", Plan(tp=8, pp=4, gbs=64, recompute="full", seq=4096)),
    ("mixtral-8x7b", "64xH100", Plan(tp=2, ep=8, pp=2, gbs=128)),
    ("llama-3.1-8b", "16xA100", Plan(runtime="fsdp2", seq=4096, gbs=64, mbs=1)),
]


@pytest.mark.parametrize(("model", "gpus", "plan"), PLANS)
def test_what_is_told_is_what_the_changed_plan_takes(model: str, gpus: str, plan: Plan) -> None:
    architecture, cluster = load(model), parse_cluster(gpus)
    before = estimate(architecture, plan, cluster)
    found = advice(architecture, cluster, before)
    assert list(found) == sorted(found, key=lambda each: each.change.seconds)
    for each in found:
        free = {"dp": None, "grad_acc": None, "etp": None, "sp": None}
        staged = {"schedule": None} if {"pp", "vpp"} & each.change.fields.keys() else {}
        changed = dataclasses.replace(before.plan, **{**free, **staged, **each.change.fields})
        after = estimate(architecture, changed, cluster)
        assert after.fits
        assert after.plan.gbs == before.plan.gbs
        saved = before.step.seconds - after.step.seconds
        assert saved == pytest.approx(-each.change.seconds)
        assert saved >= 0.01 * before.step.seconds


def test_the_answer_names_the_largest_part_and_the_advice() -> None:
    result = run("estimate", "gpt2", "--gpus", "8xH100", "--seq", "512", "--json").json()
    largest = result["step"]["largest"]
    assert largest["seconds"] == max(result["step"]["breakdown"].values())
    assert largest["share"] == pytest.approx(largest["seconds"] / result["step"]["seconds"])
    assert result["advice"][0].keys() >= {"part", "share", "why", "fields", "seconds", "fits"}
    page = run("estimate", "gpt2", "--gpus", "8xH100", "--seq", "512").out
    assert "What would shorten it" in page
