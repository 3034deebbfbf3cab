"""Closed forms of layers, derived by hand, against the ledger run on symbols.

All in 16 bits. Letters: s tokens, b sequences, h hidden, a query heads, k key-value heads,
d head width, f MLP width, t tensor-parallel size; per rank.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy

from tests.witness.symbolic import A, B, D, F, H, K, S, T, gpt, setting
from tonnage.arch import (
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    Mixer,
    MoE,
)
from tonnage.ledger import layer_operations, saved_tensors, sequence_flops, whole, whole_stage
from tonnage.ledger.operation import Operations, forward_flops, union_bytes
from tonnage.plan import Plan, Setting
from tonnage.runtime import RUNTIMES

E, TOP, TE, W, R, RQ, RKV, DN, DR, DV = sympy.symbols(
    "E K_top t_e w r r_q r_kv d_n d_r d_v", positive=True, integer=True
)
GQA: Any = {"heads": A, "kv_heads": K, "head_dim": D}
GATED: Any = {"intermediate": F, "gated": True, "activation": "silu"}
MLA: Any = {
    "heads": A,
    "query_rank": RQ,
    "kv_rank": RKV,
    "nope_head_dim": DN,
    "rope_head_dim": DR,
    "value_head_dim": DV,
}


def model(mixer: Mixer, mlp: FeedForward) -> Architecture:
    """One RMSNorm layer of symbols."""
    layer = Layer(mixer=mixer, mlp=mlp, mixer_norm=RMSNORM, mlp_norm=RMSNORM)
    return dataclasses.replace(
        gpt(), layers=(layer,), final_norm=RMSNORM, learned_positions=0, embedding_dropout=0.0
    )


def operations(run: Setting) -> Operations:
    return layer_operations(run, run.architecture.layers[0])


def saved(run: Setting, prefix: str = "") -> sympy.Expr:
    """Bytes of the kept tensors whose name starts so."""
    kept = saved_tensors(operations(run))
    return sympy.expand(union_bytes(tensor for tensor in kept if tensor.name.startswith(prefix)))


def same(left: sympy.Expr, right: sympy.Expr) -> bool:
    return bool(sympy.simplify(left - right) == 0)


# --- activations -----------------------------------------------------------------------

NORMS = 8 * H + 8  # two norms: input, output and one fp32 statistic each
FLASH = 4 * A * D + 4 * K * D + 4 * A  # q and context, k and v, and an fp32 log-sum-exp


@pytest.mark.parametrize(
    ("fields", "norms", "inside"),
    [({}, 1, 1), ({"tp": T}, 1, T), ({"tp": T, "sp": True}, T, T)],
)
def test_grouped_query_flash_attention_and_a_gated_mlp(
    fields: dict[str, Any], norms: Any, inside: Any
) -> None:
    run = setting(model(Attention(**GQA), MLP(**GATED)), "megatron", Plan(), **fields)
    assert same(saved(run), S * B * (NORMS / norms + (FLASH + 6 * F) / inside))


def test_an_eager_gated_activation_keeps_a_fourth_wide_tensor() -> None:
    run = setting(model(Attention(**GQA), MLP(**GATED)), "fsdp2", Plan())
    assert same(saved(run, "mlp."), 8 * S * B * F)


def test_a_context_parallel_rank_keeps_its_share_of_everything() -> None:
    architecture = model(Attention(**GQA), MLP(**GATED))
    c = sympy.Symbol("c", positive=True, integer=True)
    whole_run = setting(architecture, "megatron", Plan(), tp=T, sp=True)
    share = setting(architecture, "megatron", Plan(), tp=T, sp=True, cp=c)
    assert same(saved(share), saved(whole_run) / c)


def test_eager_grouped_query_attention_repeats_keys_and_squares_the_sequence() -> None:
    """Separate projections: the narrow keys and values go, the repeated ones stay."""
    plan = Plan(attention="eager")
    run = setting(model(Attention(**GQA), MLP(**GATED)), "fsdp2", plan)
    by_hand = S * B * (4 * A * D + 4 * A * D) + 2 * A * S**2 * B
    assert same(saved(run, "attention."), by_hand)


@pytest.mark.parametrize("sp", [False, True])
def test_mixture_of_experts(sp: bool) -> None:
    """Router in fp32 with its map; dispatched ``2hM``, and ``6fM/t_e`` inside the experts."""
    width: Any = F
    count: Any = E
    top: Any = TOP
    spec = MoE(experts=count, top_k=top, expert=MLP(**{**GATED, "intermediate": width}))
    fields: Any = {"tp": T, "sp": True, "etp": TE} if sp else {}
    run = setting(model(Attention(**GQA), spec), "megatron", Plan(), **fields)
    tokens, etp = (S * B / T, TE) if sp else (S * B, 1)
    arrived = tokens * TOP * etp
    assert same(saved(run, "moe.router"), tokens * (12 * E + E + 8 * E + 4))
    assert same(saved(run, "moe.dispatched"), 2 * H * arrived)
    assert same(saved(run, "moe.expert"), 6 * F * arrived / etp)
    assert same(saved(run, "layer.mlp_norm"), tokens * (2 * H + 4))


@pytest.mark.parametrize("sp", [False, True])
def test_latent_attention(sp: bool) -> None:
    """Latents, in and out of their norms, on each rank's own tokens; whole heads over t."""
    fields: Any = {"tp": T, "sp": sp}
    run = setting(model(LatentAttention(**MLA), MLP(**GATED)), "megatron", Plan(), **fields)
    tokens = S * B / T if sp else S * B
    latents = 4 * RQ + 4 + 2 * (RKV + DR) + 4 * RKV + 4
    heads = 4 * (DN + DR) + 4 * DV + 4
    assert same(saved(run, "attention."), tokens * latents + S * B * A * heads / T)


# --- FLOPs -----------------------------------------------------------------------------


def forward(run: Setting) -> sympy.Expr:
    return sympy.expand(forward_flops(operations(run)))


def test_dense_layer_flops_on_one_rank() -> None:
    run = setting(model(Attention(**GQA), MLP(**GATED)), "megatron", Plan(), tp=T, sp=True)
    run = dataclasses.replace(run, causal=False)
    projections = 2 * H * (A * D + 2 * K * D) + 2 * A * D * H
    by_hand = S * B * (projections + 6 * H * F + 4 * S * A * D) / T
    assert same(forward(run), by_hand)


def test_mixture_flops_count_the_experts_visited() -> None:
    count: Any = E
    top: Any = TOP
    spec = MoE(experts=count, top_k=top, expert=MLP(**GATED), shared=MLP(**GATED))
    run = setting(model(Attention(**GQA), spec), "megatron", Plan(), tp=T, sp=True, etp=TE)
    inside = [op for op in operations(run) if op.name.startswith("moe")]
    by_hand = S * B * (2 * H * E + 6 * H * F * TOP + 6 * H * F) / T
    assert same(sympy.expand(forward_flops(inside)), by_hand)


def test_latent_attention_flops() -> None:
    run = setting(model(LatentAttention(**MLA), MLP(**GATED)), "megatron", Plan())
    run = dataclasses.replace(run, causal=False)
    down = 2 * H * (RQ + RKV + DR)
    up = 2 * RQ * A * (DN + DR) + 2 * RKV * A * (DN + DV)
    core = 2 * S * A * (DN + DR + DV)
    by_hand = S * B * (down + up + core + 2 * A * DV * H + 6 * H * F)
    assert same(forward(run), by_hand)


@pytest.mark.parametrize("causal", [True, False])
def test_windowed_attention_counts_the_pairs_inside_the_window(causal: bool) -> None:
    """``w·s - w²/2`` pairs under the mask, ``w·s`` in the rectangle, for w below s."""
    more = sympy.Symbol("x", positive=True, integer=True)
    window: Any = W
    architecture = model(Attention(**GQA, window=window), MLP(**GATED))
    run = setting(architecture, "megatron", Plan(), seq=W + more)
    run = dataclasses.replace(run, causal=causal)
    core = next(op for op in operations(run) if op.name == "attention.core")
    pairs = W * (W + more) - (W**2 / 2 if causal else 0)
    assert same(core.flops, 4 * A * D * B * pairs)
    assert same(core.flops_inside, 2 * A * D * B * pairs)


@pytest.mark.parametrize(("seq", "window"), [(64, 1), (64, 16), (64, 64), (48, 100)])
def test_pairs_beside_a_count_of_the_mask(seq: int, window: int) -> None:
    """The convention leaves out half of each diagonal block: ``w/2`` pairs of a sequence."""
    mask = sum(1 for i in range(seq) for j in range(seq) if 0 <= i - j < window)
    one = Attention(heads=1, kv_heads=1, head_dim=1, window=window)
    mlp = MLP(intermediate=1, gated=True, activation="silu")
    architecture = dataclasses.replace(model(one, mlp), hidden=1, vocab=1)
    core = next(
        op for op in operations(whole(architecture, seq=seq)) if op.name == "attention.core"
    )
    assert mask - core.flops / 4 == min(seq, window) / 2


def test_adapters_cost_six_and_a_frozen_weight_four() -> None:
    """LoRA: no gradient of a frozen weight, so 4 FLOPs of each a token; 6 of an adapter's."""
    rank: Any = R
    architecture = model(Attention(**GQA), MLP(**GATED))
    run = whole(architecture, Plan(lora_rank=rank), seq=S)
    flops = sequence_flops(run, (whole_stage(architecture),), causal=False).model
    pairs = [(H, A * D), (H, K * D), (H, K * D), (A * D, H), (H, F), (H, F), (F, H)]
    frozen = sum(wide_in * wide_out for wide_in, wide_out in pairs)
    adapters = sum(R * (wide_in + wide_out) for wide_in, wide_out in pairs)
    head = 4 * H * architecture.vocab
    by_hand = S * (4 * frozen + 6 * adapters + head + 12 * S * A * D)
    assert same(sympy.expand(flops), by_hand)


def test_adapters_only_where_they_are_asked_for() -> None:
    rank: Any = R
    plan = Plan(lora_rank=rank, lora_targets=("q_proj", "v_proj"))
    run = setting(model(Attention(**GQA), MLP(**GATED)), "megatron", plan, tp=T, sp=True)
    trained = [w for op in operations(run) for w in op.weights if w.trains]
    assert {w.name for w in trained} == {
        f"attention.{letter}.lora_{side}" for letter in "qv" for side in "ab"
    }
    # A keeps the whole input of a column-parallel layer, B the rank's share of the output.
    by_hand = R * (H + A * D / T) + R * (H + K * D / T)
    assert same(sum(w.numel for w in trained), by_hand)


def test_every_runtime_can_be_written_in_symbols() -> None:
    for name in RUNTIMES:
        run = setting(model(Attention(**GQA), MLP(**GATED)), name, Plan())
        assert saved(run).free_symbols <= {S, B, H, A, K, D, F}
