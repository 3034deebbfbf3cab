"""Plans written for a tool and read back: the same plan, or a refusal that names a field."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings

from tests.cli.running import run as command_line
from tests.formats.plans import LLAMA3, Case, megatron_cases, nanotron_cases, torchtitan_cases
from tests.plan.strategies import DENSE, cluster
from tonnage.arch import Architecture, load
from tonnage.cli.flags import plan_changes
from tonnage.errors import InputError
from tonnage.formats import EXPORTS, Launch, export
from tonnage.formats.detect import detect_kind
from tonnage.formats.same_model import differences
from tonnage.formats.text import parse_document
from tonnage.plan import Plan
from tonnage.plan.layout import chunk_sizes
from tonnage.plan.layout_text import written
from tonnage.plan.resolve import resolve
from tonnage.search.layouts import ACCOUNTS

NAMES = {"megatron": "x.sh", "mindspeed": "x.sh", "nanotron": "x.yaml", "torchtitan": "x.toml"}


def read_back(kind: str, text: str) -> Launch:
    document = parse_document(NAMES[kind], text)
    return detect_kind(document, kind).read(document)


def returned(kind: str, case: Case) -> tuple[Plan, Plan]:
    """A plan with every blank filled, before it was written and after it was read back."""
    architecture, plan, where = case
    written = export(kind, architecture, plan, where)
    launch = read_back(kind, written.text)
    assert launch.kind == kind
    assert launch.gpus == where.gpus
    assert not launch.lacks
    assert not launch.not_understood, launch.not_understood
    assert launch.architecture is not None
    assert differences(architecture, launch.architecture) == ()
    if kind in ("megatron", "mindspeed"):
        assert launch.architecture.constants == architecture.constants
    read: dict[str, Any] = dict(launch.plan)
    return (
        resolve(plan, architecture, where).plan,
        resolve(Plan(**read), architecture, where).plan,
    )


SPLIT = ("pipeline_layout", "first_stage_layers", "last_stage_layers", *ACCOUNTS)


def sized(plan: Plan, architecture: Architecture) -> Plan:
    """The plan with its layers by chunk in place of whatever names the split."""
    if plan.pp == 1:
        return plan
    sizes = [size for each in chunk_sizes(architecture, plan) for size in each]
    blank = {name: getattr(Plan(), name) for name in SPLIT}
    return dataclasses.replace(plan, **{**blank, "pipeline_layout": written(sizes)})


@settings(max_examples=30)
@given(case=megatron_cases("megatron"))
def test_megatron_reads_back_the_same_plan(case: Case) -> None:
    before, after = returned("megatron", case)
    assert after == before


@settings(max_examples=15)
@given(case=megatron_cases("mindspeed"))
def test_mindspeed_reads_back_the_same_plan(case: Case) -> None:
    before, after = returned("mindspeed", case)
    assert after == before


@settings(max_examples=20)
@given(case=nanotron_cases())
def test_nanotron_reads_back_the_same_plan(case: Case) -> None:
    before, after = returned("nanotron", case)
    # The file says that the vocabulary is padded to a multiple of 1, as nanotron does anyway.
    assert dataclasses.replace(after, habits=()) == dataclasses.replace(before, habits=())


@settings(max_examples=30)
@given(case=torchtitan_cases())
def test_torchtitan_reads_back_the_same_plan(case: Case) -> None:
    before, after = (sized(plan, case[0]) for plan in returned("torchtitan", case))
    if before.hsdp_shard == (before.dp or 1) * before.cp:
        before = dataclasses.replace(before, hsdp_shard=None)
    assert after == before


@settings(max_examples=20)
@given(case=megatron_cases("megatron") | nanotron_cases() | torchtitan_cases())
def test_torchrun_is_read_by_the_flags_of_every_verb(case: Case) -> None:
    architecture, plan, where = case
    words = shlex.split(export("torchrun", architecture, plan, where).text, comments=True)
    start = words.index("train")
    assert words[:2] == ["torchrun", "--nnodes"]
    assert words[start - 2 : start] == ["-m", "tonnage"]
    assert int(words[2]) * int(words[4]) == where.gpus
    assert Plan(**parsed(words[start + 1 :])) == resolve(plan, architecture, where).plan


def parsed(words: list[str]) -> dict[str, Any]:
    """Fields of a plan from flags, by the parser of the command line."""
    from cyclopts import App

    from tonnage.cli.flags import with_plan_flags

    found: list[dict[str, Any]] = []

    def verb(model: str, /, **flags: Any) -> int:
        assert model
        found.append(plan_changes(flags))
        return 0

    app = App()
    app.default(with_plan_flags(verb))
    app(words, exit_on_error=False, result_action="return_value")
    return found[0]


def test_what_a_tool_cannot_be_told_is_refused_by_name() -> None:
    llama, where = load("llama-3.1-8b"), cluster(8)
    for kind, plan, field in (
        ("megatron", Plan(lora_rank=8), "lora_rank"),
        ("megatron", Plan(recompute="full", recompute_num_layers=0), "recompute_num_layers"),
        ("megatron", Plan(precision="bf16"), "precision"),
        ("nanotron", Plan(runtime="nanotron", optimizer="lion"), "optimizer"),
        ("mindspeed", Plan(runtime="mindspeed", offload_optimizer=0.5), "offload_optimizer"),
        ("torchtitan", Plan(runtime="fsdp2", cp=2, cp_comm="a2a"), "cp_comm"),
        ("torchtitan", Plan(runtime="fsdp2", recompute="selective"), "recompute_modules"),
        ("torchtitan", Plan(runtime="fsdp2", lora_rank=8), "lora_rank"),
        ("megatron", Plan(runtime="nanotron"), "runtime"),
    ):
        with pytest.raises(InputError) as caught:
            export(kind, llama, plan, where)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("kind", "model", "said"),
    [
        ("megatron", "gemma-2-9b", "no norm after attention"),
        ("megatron", "jamba-v0.1", "attention alone"),
        ("nanotron", "gpt2", "RMSNorm and rotary"),
        ("torchtitan", "mistral-7b", "torchtitan has no mistral-7b"),
    ],
)
def test_a_model_that_a_tool_lacks_is_a_warning(kind: str, model: str, said: str) -> None:
    runtime = EXPORTS[kind].runtimes[0]
    written = export(kind, load(model), Plan(runtime=runtime, seq=512), cluster(8))
    assert any(said in warning for warning in written.warnings), written.warnings


def test_the_command_line_writes_the_file_alone_and_warns_beside_it() -> None:
    flags = ("--gpus", "16xH100", "--tp", "2", "--pp", "2", "--export", "megatron")
    result = command_line("estimate", "gemma-2-9b", *flags)
    assert result.code == 0
    assert result.out.startswith("#!/bin/bash\n")
    assert result.err.startswith("warning: megatron")
    told = command_line("estimate", "gemma-2-9b", *flags, "--json").json()["export"]
    assert told["text"] == result.out
    assert [f"warning: {one}" for one in told["warnings"]] == result.err.splitlines()


def test_a_tool_sets_the_runtime_and_another_is_refused() -> None:
    base = ("estimate", "llama-3.1-8b", "--gpus", "8xH100", "--export", "torchtitan")
    assert command_line(*base).code == 0
    refused = command_line(*base, "--runtime", "nanotron", "--json")
    assert refused.code == 2
    assert refused.json()["error"]["field"] == "runtime"
    unknown = command_line(*base[:-1], "gpt-neox", "--json").json()["error"]
    assert (unknown["field"], unknown["value"]) == ("export", "gpt-neox")


def test_a_launch_of_one_tool_becomes_one_of_another(tmp_path: Any) -> None:
    source = tmp_path / "run.json"
    source.write_text(json.dumps(["--num-layers", "4"]), encoding="utf-8")
    text = command_line(
        *("estimate", "llama-3.1-8b", "--gpus", "8xH100", "--tp", "2", "--export", "nanotron")
    ).out
    source = tmp_path / "run.yaml"
    source.write_text(text, encoding="utf-8")
    result = command_line(
        *("estimate", "--config", str(source), "--gpus", "H100", "--export", "megatron")
    )
    assert result.code == 0
    assert "left to megatron" in result.err
    launch = read_back("megatron", result.out)
    assert (launch.plan["tp"], launch.gpus) == (2, 8)


def test_torchrun_says_that_its_verb_is_not_here_as_long_as_it_is_not() -> None:
    from tonnage.cli.app import make_app

    written = export("torchrun", load("llama-3.1-8b"), Plan(tp=2), cluster(8))
    comment = written.text.startswith("# tonnage train is not in this version")
    assert comment == ("train" not in make_app())
    assert any("tonnage train" in warning for warning in written.warnings) == comment


def test_the_flags_of_a_torchrun_command_are_estimates_own() -> None:
    text = command_line(
        *("estimate", "llama-3.1-8b", "--gpus", "16xH100", "--tp", "2", "--recompute", "full"),
        *("--steps", "7", "--export", "torchrun"),
    ).out
    words = shlex.split(text, comments=True)
    given = words[words.index("train") + 1 :]
    again = command_line("estimate", *given, "--gpus", "16xH100", "--export", "torchrun")
    assert (again.code, again.out) == (0, text)


@pytest.mark.parametrize(
    ("kind", "plan", "accepted"),
    [
        ("megatron", Plan(pp=2, vpp=2, schedule="dualpipev", grad_acc=8), "interleaved"),
        ("megatron", Plan(pp=2, schedule="zero-bubble", grad_acc=8), "1f1b"),
        ("torchtitan", Plan(runtime="fsdp2", pp=2, schedule="zero-bubble", grad_acc=8), "zbv"),
        ("torchtitan", Plan(runtime="fsdp2", pp=2, schedule="dualpipe", grad_acc=8), "dualpipev"),
        (
            "mindspeed",
            Plan(runtime="mindspeed", pp=2, vpp=2, schedule="zbv", grad_acc=8),
            "dualpipev",
        ),
    ],
)
def test_a_schedule_that_a_tool_lacks_is_refused_by_name(
    kind: str, plan: Plan, accepted: str
) -> None:
    with pytest.raises(InputError) as caught:
        export(kind, load("llama-3.1-8b"), plan, cluster(8))
    assert caught.value.field == "schedule"
    assert accepted in str(caught.value.accepted)


def test_mindspeed_reads_back_dualpipev() -> None:
    plan = Plan(runtime="mindspeed", pp=2, vpp=2, schedule="dualpipev", seq=64, grad_acc=8,
                overlap_grad_reduce=False, overlap_param_gather=False)  # fmt: skip
    before, after = returned("mindspeed", (DENSE, plan, cluster(4)))
    assert after == before


def test_torchtitans_interleaved_zero_bubble_is_not_understood() -> None:
    text = export("torchtitan", LLAMA3, Plan(runtime="fsdp2", pp=2, vpp=3, grad_acc=4), cluster(4))
    launch = read_back("torchtitan", text.text.replace("Interleaved1F1B", "InterleavedZeroBubble"))
    assert launch.not_understood == ("parallelism.pipeline_parallel_schedule",)
    assert launch.plan["schedule"] == "interleaved"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gemma-2-9b", "softcap True, written as False"),
        ("gpt-oss-20b", "no yarn stretching"),
        ("starcoder2-3b", "rotary base of starcoder2-3b is not known"),
    ],
)
def test_what_a_file_does_not_say_of_a_model_is_said(model: str, said: str) -> None:
    written = export("megatron", load(model), Plan(seq=512), cluster(8))
    assert any(said in warning for warning in written.warnings), written.warnings


def test_megatron_is_told_a_published_model_whole() -> None:
    for model in ("llama-3.1-8b", "deepseek-v3", "qwen3-30b-a3b", "mixtral-8x7b"):
        written = export("megatron", load(model), Plan(seq=512), cluster(8))
        assert written.warnings == ()
    text = export("megatron", load("deepseek-v3"), Plan(seq=512), cluster(8)).text
    assert "--position-embedding-type rope\n" in text
    text = export("megatron", load("llama-3.1-8b"), Plan(seq=512), cluster(8)).text
    assert "--rotary-base 500000\n" in text
