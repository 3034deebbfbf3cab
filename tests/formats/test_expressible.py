"""A search for a tool finds only what the tool can be told."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.cli.running import run
from tests.plan.strategies import DENSE, MIXTURE, cluster
from tonnage.arch import Architecture
from tonnage.cli.export import for_export, show_found
from tonnage.errors import InputError
from tonnage.formats import EXPORTS
from tonnage.formats.detect import detect_kind
from tonnage.formats.text import parse_document
from tonnage.plan import Plan, resolve
from tonnage.search import Question, find_plans

ASKED = ("plan", "qwen3-0.6b", "--gpus", "2xH100", "--gbs", "4", "--seq", "512")


def question(kind: str, architecture: Architecture, **choices: tuple[Any, ...]) -> Question:
    """A small search for a tool, of every plan that it answers with."""
    free = Question(
        architecture=architecture,
        clusters=(cluster(4),),
        base=Plan(gbs=8, seq=128),
        choices={"cp": (1, 2), "mbs": (1, 2), "pp": (1, 2), **choices},
        top=30,
    )
    return for_export(kind, free, asked=None)


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("architecture", [DENSE, MIXTURE], ids=lambda m: m.name)
def test_every_plan_that_a_search_for_a_tool_finds_can_be_written(
    kind: str, architecture: Architecture, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = question(kind, architecture)
    found = find_plans(asked)
    assert found.plans
    for proposal in found.plans:
        alone = dataclasses.replace(found, plans=(proposal,))
        assert show_found(asked, alone, kind, data=None) == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "knob", "value"),
    [
        ("nanotron", "hsdp_shard", 4),
        ("nanotron", "recompute_num_layers", 2),
        ("megatron", "recompute_modules", ("activation",)),
        ("megatron", "schedule", "gpipe"),
        ("torchtitan", "recompute_method", "block"),
        ("deepspeed", "hsdp_shard", 4),
    ],
)
def test_a_knob_that_a_tool_cannot_be_told_is_refused_by_name(
    kind: str, knob: str, value: object
) -> None:
    with pytest.raises(InputError, match="can be told") as caught:
        question(kind, DENSE, **{knob: (value,)})
    assert caught.value.field == knob


def test_torchtitan_has_sequence_parallelism_wherever_it_has_tp() -> None:
    found = find_plans(question("torchtitan", DENSE, tp=(1, 2)))
    assert found.plans
    assert all(proposal.plan.sp == (proposal.plan.tp > 1) for proposal in found.plans)


def test_plan_prints_the_file_alone_and_what_it_is_beside_it() -> None:
    result = run(*ASKED, "--export", "megatron", "--tp", "2")
    assert result.code == 0
    assert result.out.startswith("#!/bin/bash\n")
    assert "--tensor-model-parallel-size 2" in result.out
    assert result.err.splitlines()[0].startswith("plan: tp 2")


def test_plan_answers_json_with_what_is_written() -> None:
    answer = run(*ASKED, "--export", "nanotron", "--json").json()
    assert answer["export"]["kind"] == "nanotron"
    assert answer["export"]["text"].startswith("# qwen3-0.6b on 2 x H100")
    assert answer["plans"][0]["plan"]["runtime"] == "nanotron"


def test_why_not_says_what_the_tool_cannot_be_told() -> None:
    asked = (*ASKED, "--export", "nanotron", "--why-not", "recompute_num_layers=2")
    answer = run(*asked, "--json").json()
    assert answer["why_not"]["verdict"] == "illegal"
    assert "recompute_num_layers 2 is nothing that nanotron" in answer["why_not"]["text"]


def test_a_search_where_nothing_fits_writes_nothing() -> None:
    asked = ("plan", "llama-3.1-405b", "--gpus", "1xH100", "--gbs", "1", "--seq", "8192")
    result = run(*asked, "--export", "deepspeed")
    assert (result.code, result.out) == (3, "")
    assert result.err.splitlines()[-1].startswith("nothing fits")


def test_another_stack_than_the_tools_is_refused() -> None:
    refused = run(*ASKED, "--export", "torchtitan", "--runtime", "nanotron", "--json")
    assert refused.code == 2
    assert refused.json()["error"]["field"] == "runtime"


@pytest.mark.parametrize("kind", ["megatron", "mindspeed"])
def test_what_is_written_reads_back_as_the_plan_that_was_found(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = question(kind, DENSE, tp=(2,))
    found = find_plans(asked)
    show_found(asked, found, kind, data=None)
    document = parse_document("x.sh", capsys.readouterr().out)
    launch = detect_kind(document, kind).read(document)
    read = resolve(Plan(**launch.plan), DENSE, asked.clusters[0]).plan
    assert read == found.plans[0].plan
