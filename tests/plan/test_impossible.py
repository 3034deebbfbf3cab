"""Impossible plans: the error names the field, both numbers and the nearest legal values."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, HYBRID, MIXTURE, cluster, layer, model
from tonnage.arch import MLP, Architecture, Attention
from tonnage.errors import InputError, NotModelledError
from tonnage.plan import Plan, resolve

ODD = model(
    "odd",
    *[
        layer(
            Attention(heads=12, kv_heads=6, head_dim=16),
            MLP(intermediate=180, gated=True, activation="silu"),
        )
    ]
    * 126,
)


def refusal(plan: Plan, architecture: Architecture = DENSE, gpus: int = 8) -> InputError:
    with pytest.raises(InputError) as caught:
        resolve(plan, architecture, cluster(gpus))
    return caught.value


# Architecture, GPUs, plan, field of the error, what the message (or the hint) must say.
CASES: dict[str, tuple[Architecture, int, dict[str, Any], str, tuple[str, ...]]] = {
    "tp over heads": (ODD, 8, {"tp": 8}, "tp", ("8", "12 attention heads", "4, 6")),
    "tp over kv heads": (ODD, 4, {"tp": 4}, "tp", ("4", "6 key-value heads", "1, 2, 3 or 6")),
    "tp over mlp": (
        model("wide", layer(mlp=MLP(intermediate=90, gated=True, activation="silu"))),
        4,
        {"tp": 4},
        "tp",
        ("4", "90 units of the MLP", "1, 2, 3"),
    ),
    "pp over layers": (DENSE, 16, {"pp": 16}, "pp", ("16", "8 layers", "1 to 8")),
    "pp into layers": (
        ODD,
        4,
        {"pp": 4},
        "pp",
        ("4", "126 layers", "1, 2, 3", "account-for-embedding", "account-for-loss"),
    ),
    "pp into layers, no hint": (DENSE, 3, {"pp": 3}, "pp", ("3", "8", "4", "first-stage-layers")),
    "pp with embedding": (
        DENSE,
        4,
        {"pp": 4, "account_for_embedding": True},
        "pp",
        ("4", "9 layers", "1, 3 or 9"),
    ),
    "ends": (
        DENSE,
        4,
        {"pp": 4, "first_stage_layers": 1, "last_stage_layers": 2},
        "first_stage_layers, last_stage_layers",
        ("1, 2", "5 of 8", "2 other stages"),
    ),
    "vpp into layers": (
        DENSE,
        2,
        {"pp": 2, "vpp": 3},
        "vpp",
        ("3", "4 layers", "1, 2 or 4"),
    ),
    "vpp alone": (DENSE, 1, {"vpp": 2}, "vpp", ("2", "pp is 1")),
    "vpp and accumulation": (
        DENSE,
        4,
        {"pp": 4, "vpp": 2, "grad_acc": 6},
        "grad_acc",
        ("6", "pp 4", "4 or 8"),
    ),
    "schedule and vpp": (
        DENSE,
        2,
        {"pp": 2, "vpp": 2, "schedule": "1f1b"},
        "schedule",
        ("1f1b", "vpp 2", "interleaved"),
    ),
    "interleaved alone": (DENSE, 2, {"pp": 2, "schedule": "interleaved"}, "schedule", ("vpp 1",)),
    "ranks": (DENSE, 8, {"tp": 2, "pp": 2, "cp": 3}, "tp × pp × cp", ("12", "8 GPUs", "1, 2, 4")),
    "dp": (DENSE, 8, {"tp": 2, "dp": 3}, "dp", ("3", "tp 2", "8 GPUs", "4")),
    "batch": (DENSE, 8, {"mbs": 3, "gbs": 50}, "gbs", ("50", "mbs 3 × dp 8 = 24", "48 or 72")),
    "small batch": (DENSE, 8, {"mbs": 3, "gbs": 8}, "gbs", ("8", "24 (the nearest)")),
    "accumulation": (
        DENSE,
        8,
        {"gbs": 32, "grad_acc": 2},
        "grad_acc",
        ("2", "gbs 32", "dp 8", "accepted: 4"),
    ),
    "ep without experts": (DENSE, 8, {"ep": 2}, "ep", ("2", "dense has none", "accepted: 1")),
    "ep over experts": (MIXTURE, 3, {"ep": 3}, "ep", ("3", "8 experts", "1, 2, 4 or 8")),
    "ep over ranks": (MIXTURE, 2, {"ep": 4}, "ep × etp", ("4", "dp 2", "1 or 2")),
    "etp over an expert": (
        MIXTURE,
        32,
        {"etp": 32},
        "etp",
        ("32", "48 units of an expert", "16"),
    ),
    "sp and experts": (MIXTURE, 2, {"tp": 2, "sp": False}, "sp", ("experts", "tp > 1", "true")),
    "zero": (DENSE, 8, {"zero": 3}, "zero", ("3", "megatron", "0 or 1")),
    "zero of fsdp2": (DENSE, 8, {"zero": 1, "runtime": "fsdp2"}, "zero", ("1", "fsdp2", "2 or 3")),
    "axis": (DENSE, 8, {"tp": 2, "runtime": "ddp"}, "tp", ("2", "ddp", "accepted: 1")),
    "hsdp": (
        DENSE,
        8,
        {"runtime": "fsdp2", "hsdp_shard": 3},
        "hsdp_shard",
        ("3", "dp × cp = 8", "1, 2, 4 or 8"),
    ),
    "hsdp without zero": (
        DENSE,
        8,
        {"zero": 0, "hsdp_shard": 2},
        "hsdp_shard",
        ("2", "needs ZeRO"),
    ),
    "seq over cp": (DENSE, 4, {"cp": 4, "seq": 100}, "seq", ("100", "cp 4", "96 or 104")),
    "seq over tp": (DENSE, 4, {"tp": 4, "seq": 66}, "seq", ("66", "tp 4", "64 or 68")),
    "short seq": (DENSE, 4, {"tp": 4, "seq": 3}, "seq", ("3", "4 (the nearest)")),
    "positions": (GPT, 1, {"seq": 4097}, "seq", ("4097", "4096 learnt positions", "1 to 4096")),
    "rank": (DENSE, 1, {"lora_rank": 65}, "lora_rank", ("65", "hidden size 64", "1 to 64")),
    "no target": (
        DENSE,
        1,
        {"lora_rank": 4, "lora_targets": ()},
        "lora_targets",
        ("names no layer", "q_proj"),
    ),
    "base": (
        DENSE,
        1,
        {"runtime": "transformers", "lora_base": "nf4"},
        "lora_base",
        ("nf4", "needs adapters"),
    ),
    "base of a stack": (
        DENSE,
        1,
        {"lora_rank": 4, "lora_base": "nf4"},
        "lora_base",
        ("nf4", "megatron", "transformers"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_says_what_is_wrong_and_what_would_be_right(name: str) -> None:
    architecture, gpus, plan, field, says = CASES[name]
    error = refusal(Plan(**plan), architecture, gpus)
    assert error.field == field
    text = f"{error.message} {error.hint}"
    assert [part for part in says if part not in text] == []
    assert error.message.startswith(f"{field}: ")
    assert "(accepted: " in error.message


def test_the_hint_about_the_embedding_and_the_loss_is_true() -> None:
    plan = Plan(pp=4, account_for_embedding=True, account_for_loss=True, seq=64)
    layout = resolve(plan, ODD, cluster(4)).stages
    assert [len(stage.layers) for stage in layout] == [31, 32, 32, 31]


@pytest.mark.parametrize("gbs", [24, 48, 72])
def test_the_nearest_batches_are_legal(gbs: int) -> None:
    assert resolve(Plan(mbs=3, gbs=gbs), DENSE, cluster(8)).plan.grad_acc == gbs // 24


@pytest.mark.parametrize("seq", [96, 104])
def test_the_nearest_lengths_are_legal(seq: int) -> None:
    assert resolve(Plan(cp=4, seq=seq), DENSE, cluster(4)).plan.seq == seq


REFUSED: dict[str, Any] = {"offload_parameters": True}


@pytest.mark.parametrize(("field", "value"), REFUSED.items())
def test_what_is_not_accounted_for_is_refused_by_name(field: str, value: Any) -> None:
    error = refusal(dataclasses.replace(Plan(), **{field: value}))
    assert isinstance(error, NotModelledError)
    assert error.field == field
    assert "not modelled" in error.message


@pytest.mark.parametrize("schedule", ["zero-bubble", "dualpipe", "dualpipev"])
def test_schedules_that_are_refused(schedule: Any) -> None:
    error = refusal(Plan(pp=2, schedule=schedule))
    assert isinstance(error, NotModelledError)
    assert (error.field, error.value) == ("schedule", schedule)


def test_a_window_over_context_parallel_ranks_is_refused() -> None:
    error = refusal(Plan(cp=2), HYBRID, 2)
    assert isinstance(error, NotModelledError)
    assert (error.field, error.value) == ("cp", 2)


WORDS: dict[str, tuple[str, str]] = {
    "precision": ("bf17", "bf16-mixed"),
    "optimizer": ("adamx", "adamw"),
    "runtime": ("megatorn", "megatron"),
    "weights_dtype": ("fp17", "bf16"),
    "master_dtype": ("nothing", "fp32"),
    "recompute": ("some", "selective"),
    "recompute_method": ("alternating", "block"),
    "schedule": ("2f2b", "1f1b"),
    "attention": ("fast", "flash"),
    "lora_base": ("nf5", "nf4"),
    "iteration": ("second", "steady"),
    "optimizer_step": ("slow", "fused"),
}


@pytest.mark.parametrize("field", WORDS)
def test_a_word_that_is_not_known_is_answered_with_those_that_are(field: str) -> None:
    word, known = WORDS[field]
    changed: dict[str, Any] = {field: word}
    error = refusal(dataclasses.replace(Plan(lora_rank=4), **changed))
    assert field in error.field or error.field == f"habit {field}"
    assert error.value == word
    assert known in error.accepted


@pytest.mark.parametrize(
    ("field", "value", "known"),
    [
        ("recompute_modules", ("core_attn", "heads"), "core_attn"),
        ("lora_targets", ("q_proj", "qkv"), "down_proj"),
    ],
)
def test_a_list_with_an_unknown_word(field: str, value: Any, known: str) -> None:
    error = refusal(dataclasses.replace(Plan(lora_rank=4), **{field: value}))
    assert (error.field, error.value) == (field, value[1])
    assert known in error.accepted


@pytest.mark.parametrize(
    ("habit", "says"),
    [
        (("lose", "eager"), "loss"),
        (("loss", "lazy"), "vocab-parallel"),
        (("matmul_workspaces", "-1"), "whole number"),
        (("matmul_workspaces", "1.5"), "whole number"),
        (("matmul_workspaces", "9" * 16), "whole number"),
        (("autocast", "maybe"), "true or false"),
        (("tp_overlap", "1.5"), "0 to 1"),
        (("tp_overlap", "nan"), "0 to 1"),
        (("name", "mine"), "loss"),
    ],
)
def test_habits_that_are_none(habit: tuple[str, str], says: str) -> None:
    error = refusal(Plan(habits=(habit,)))
    assert error.field.startswith("habit")
    assert says in error.accepted


def test_latent_attention_takes_adapters_and_tensor_parallelism() -> None:
    resolved = resolve(Plan(tp=4, lora_rank=4, seq=64), DEEPSEEK, cluster(4))
    assert (resolved.setting.etp, resolved.setting.sp) == (4, True)
