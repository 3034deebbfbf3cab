"""What is kept and sent in 8 and 12 bits between the passes, by hand (arXiv 2412.19437)."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from tests.plan.strategies import (
    DENSE,
    EXPERTS,
    GPT,
    HIDDEN,
    LATENT,
    MIXTURE,
    cluster,
    layer,
    model,
)
from tonnage.arch import MLP, Architecture, load
from tonnage.errors import InputError
from tonnage.ledger import layer_operations, saved_tensors, stage_ledgers
from tonnage.ledger.layer import recomputed_modules
from tonnage.memory.activations import late_by_chunk
from tonnage.memory.liveness import walk
from tonnage.plan import Plan, Setting, resolve

SEQ, EP = 256, 4
STORE: dict[str, Any] = {"activation_func_fp8_input_store": True}
STORED = ("activation_checkpoint", "stored")
LATENTS = model("latents", *[layer(LATENT, EXPERTS)] * 8)
WITHIN_AN_EXPERT = 48
COPIES = SEQ * 2


def setting(architecture: Architecture = MIXTURE, **plan: Any) -> Setting:
    fields = {"seq": SEQ, "precision": "fp8", **plan}
    return resolve(Plan(**fields), architecture, cluster(8)).setting


def kept(run: Setting) -> dict[str, int]:
    """Bytes of each tensor that the first layer keeps."""
    operations = layer_operations(run, run.architecture.layers[0])
    return {t.name: int(t.bytes) for t in saved_tensors(operations, recomputed_modules(run))}


def test_swiglus_input_is_kept_in_a_byte_an_element() -> None:
    """Megatron-Core: 2·f wide in FP8, and f that the product behind it keeps in FP8 anyway."""
    wide, narrow = kept(setting()), kept(setting(**STORE))
    one = COPIES * WITHIN_AN_EXPERT
    assert wide["moe.expert.gate"] == wide["moe.expert.up"] == 2 * one
    assert narrow["moe.expert.gate.stored"] == narrow["moe.expert.up.stored"] == one
    assert not {"moe.expert.gate", "moe.expert.up", "moe.shared.gate"}.intersection(narrow)
    assert narrow["moe.expert.activated.fp8_e4m3"] == one
    shared = SEQ * 96
    assert sum(wide.values()) - sum(narrow.values()) == 2 * one + 2 * shared


@pytest.mark.parametrize("precision", ["bf16-mixed", "fp8"])
def test_a_dense_block_stores_e4m3_whatever_the_recipe(precision: str) -> None:
    """The cast is the activation's own, without scales, under bf16 too."""
    found = kept(setting(DENSE, precision=precision, **STORE))
    assert found["mlp.gate.stored"] == found["mlp.up.stored"] == SEQ * 160
    assert ("mlp.activated" in found) == (precision == "bf16-mixed")


@pytest.mark.parametrize("module", ["moe_act", "activation"])
def test_a_checkpoint_around_the_activation_holds_the_whole_input(module: str) -> None:
    """Megatron-Core checkpoints the activation with its 16-bit input; DeepSeek stores that too."""
    again: dict[str, Any] = {"recompute": "selective", "recompute_modules": (module,), **STORE}
    one = COPIES * WITHIN_AN_EXPERT
    whole = kept(setting(**again))
    assert whole["moe.expert.gate"] == whole["moe.expert.up"] == 2 * one
    narrow = kept(setting(**again, habits=(STORED,)))
    assert narrow["moe.expert.gate.stored"] == narrow["moe.expert.up.stored"] == one
    for found in (whole, narrow):
        assert "moe.expert.activated.fp8_e4m3" not in found


@pytest.mark.parametrize("habits", [(), (STORED,)])
def test_a_recomputed_mixture_keeps_nothing_of_its_activation(habits: Any) -> None:
    again: dict[str, Any] = {"recompute": "selective", "recompute_modules": ("moe", "activation")}
    found = kept(setting(**again, **STORE, habits=habits))
    assert found == kept(setting(**again))


def test_backward_widens_what_was_stored() -> None:
    """The 16-bit copies that forward saved are there again while the kernel runs."""
    run = setting(DENSE, **STORE)
    operations = layer_operations(run, DENSE.layers[0])
    (activation,) = (op for op in operations if op.name == "mlp.activation")
    assert sum(int(t.bytes) for t in activation.scratch_backward) == 2 * 2 * SEQ * 160
    walked = [
        walk(each, ops, saved_tensors(ops))
        for each in (setting(DENSE), run)
        for ops in (layer_operations(each, DENSE.layers[0]),)
    ]
    assert walked[1].backward >= walked[0].backward


@pytest.mark.parametrize(
    ("architecture", "plan", "problem"),
    [
        (GPT, {}, "gelu, without a gate"),
        (DENSE, {"runtime": "fsdp2", "precision": None}, "fsdp2"),
        (DENSE, {"runtime": "nanotron", "precision": None}, "nanotron"),
    ],
)
def test_it_is_refused_where_there_is_none(
    architecture: Architecture, plan: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        setting(architecture, **STORE, **plan)
    assert refused.value.field == "activation_func_fp8_input_store"


def test_a_gated_gelu_is_refused() -> None:
    geglu = dataclasses.replace(
        DENSE.layers[0], mlp=MLP(intermediate=160, gated=True, activation="gelu")
    )
    with pytest.raises(InputError, match="is for SwiGLU"):
        setting(model("geglu", *[geglu] * 8), **STORE)


@pytest.mark.parametrize("architecture", [DENSE, LATENTS])
def test_attentions_output_is_kept_once_in_12_bits(architecture: Architecture) -> None:
    """For its own backward pass and the product behind it, 3/2 of a byte in place of 2 and 1."""
    width = 8 * (16 if architecture is DENSE else 12)
    wide = kept(setting(architecture))
    narrow = kept(setting(architecture, habits=(("attention_output", "e5m6"),)))
    assert wide["attention.context"] == 2 * SEQ * width
    assert wide["attention.context.fp8_e4m3"] == SEQ * width
    assert narrow["attention.context.e5m6"] == SEQ * width * 3 // 2
    assert not {"attention.context", "attention.context.fp8_e4m3"}.intersection(narrow)


def sent(run: Setting, name: str) -> list[tuple[str, int]]:
    operations = layer_operations(run, run.architecture.layers[0])
    (found,) = (op for op in operations if op.name == name)
    return [(c.phase, int(c.bytes)) for c in found.collectives if c.kind == "all_to_all"]


@pytest.mark.parametrize("dispatcher", ["alltoall", "deepep"])
def test_what_goes_to_the_experts_travels_narrow(dispatcher: str) -> None:
    """Tokens forward, gradients of the outputs backward; both ways back stay in bf16."""
    habits = (("dispatch_format", "recipe"),)
    run = setting(ep=EP, moe_dispatcher=dispatcher, habits=habits)
    rows = COPIES * HIDDEN
    assert sent(run, "moe.dispatch") == [("forward", rows), ("backward", 2 * rows)]
    assert sent(run, "moe.combine") == [("forward", 2 * rows), ("backward", rows)]


def test_without_a_narrow_recipe_nothing_travels_narrow() -> None:
    habits = (("dispatch_format", "recipe"),)
    run = setting(ep=EP, precision="bf16-mixed", habits=habits)
    rows = 2 * COPIES * HIDDEN
    assert sent(run, "moe.dispatch") == [("forward", rows), ("backward", rows)]


def test_gradients_that_wait_for_a_weight_are_narrow_with_the_recipe() -> None:
    """The product for the weight reads the copy that the one for the input has read."""
    late = []
    for precision in ("bf16-mixed", "fp8"):
        plan = Plan(seq=SEQ, pp=8, gbs=32, precision=precision, schedule="dualpipe")
        resolved = resolve(plan, DENSE, cluster(8))
        run = resolved.setting
        ledger = stage_ledgers(run, resolved.stages)[3]
        late.append(int(late_by_chunk(run, ledger, ledger.stage.chunks[0])))
    # Every product of a dense layer is narrow: inputs and gradients are halved.
    assert late[0] == 2 * late[1] > 0


def test_a_layer_of_deepseek_v3() -> None:
    """MiB of one micro-batch: 144 of SwiGLU and 96 of attention less than in 16 bits."""
    v3 = load("deepseek-v3")
    plan: dict[str, Any] = {
        "seq": 4096,
        "moments_dtype": "bf16",
        "recompute": "selective",
        "recompute_modules": ("layernorm", "activation", "mla_up_proj"),
    }
    habits = (STORED, ("attention_output", "e5m6"))
    totals = []
    stored = {**STORE, "habits": habits[:1]}
    both = {**STORE, "habits": habits}
    for more in ({}, stored, both):
        run = resolve(Plan(precision="fp8", **plan, **more), v3, cluster(8)).setting
        operations = layer_operations(run, v3.layers[-1])
        held = saved_tensors(operations, recomputed_modules(run))
        totals.append(sum(int(t.bytes) for t in held))
    mib = 2**20
    assert [one - other for one, other in itertools.pairwise(totals)] == [
        4096 * 9 * 2 * 2048,
        4096 * 128 * 128 * 3 // 2,
    ]
    assert totals[0] - totals[2] == 240 * mib
