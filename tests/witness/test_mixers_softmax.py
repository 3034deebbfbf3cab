"""Softmax attention in symbols: which keys a query sees, what that costs and what is kept."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.witness.symbolic import A, B, D, F, H, K
from tonnage.arch import (
    LAYERNORM,
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    CompressedAttention,
    Indexer,
    LatentAttention,
    Layer,
    Mixer,
    MoE,
)
from tonnage.ledger import Operations, layer_operations, saved_bytes, whole
from tonnage.ledger.indexer import score_flops
from tonnage.ledger.operation import forward_flops, weights_of
from tonnage.ledger.pairs import Sight, twice_pairs
from tonnage.plan import Setting

W, X, Q, R, M, N = sympy.symbols("w x q r m n", positive=True, integer=True)
A_I, D_I, D_V, G, R_O = sympy.symbols("a_i d_i d_v g r_o", positive=True, integer=True)

HEADS: dict[str, Any] = {"heads": A, "kv_heads": K, "head_dim": D}
INDEXER: dict[str, Any] = {
    "heads": A_I,
    "head_dim": D_I,
    "query_norm": None,
    "key_norm": LAYERNORM,
    "head_weights": True,
}


def setting(**numeric: Any) -> Setting:
    hidden: Any = numeric.pop("hidden", H)
    streams: Any = numeric.pop("streams", 0)
    layer = Layer(mixer=None, mlp=None, mixer_norm=None, mlp_norm=None)
    architecture = Architecture(
        name="x",
        family="x",
        hidden=hidden,
        vocab=16,
        layers=(layer,),
        final_norm=RMSNORM,
        tied_embeddings=True,
        max_positions=None,
        streams=streams,
    )
    return whole(architecture, mbs=B, **numeric)


def run(mixer: Mixer, **numeric: Any) -> tuple[Setting, Operations]:
    """A layer of one mixer without a norm, so that what is kept is the mixer's own."""
    here = setting(**numeric)
    layer = Layer(mixer=mixer, mlp=None, mixer_norm=None, mlp_norm=None)
    return here, layer_operations(here, layer)


def core_flops(operations: Operations) -> sympy.Expr:
    return sympy.expand(next(op.flops for op in operations if op.name == "attention.core"))


def same(left: Any, right: Any) -> bool:
    return bool(sympy.simplify(sympy.expand(left - right)) == 0)


# --- pairs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sight", "seq", "pairs"),
    [
        (Sight(), X, X**2 / 2),
        (Sight(causal=False), X, X**2),
        (Sight(window=W), W + X, W * (W + X) - W**2 / 2),
        (Sight(top_k=W), W + X, W * (W + X) - W**2 / 2),
        (Sight(chunk=W), W * N, N * W**2 / 2),
        (Sight(ratio=R), R * N, R * N**2 / 2),
        (Sight(ratio=R, top_k=M), R * (M + N), M * R * (M + N) - R * M**2 / 2),
    ],
    ids=["all", "both ways", "window", "picked", "chunks", "blocks", "picked blocks"],
)
def test_pairs(sight: Sight, seq: sympy.Expr, pairs: sympy.Expr) -> None:
    found = twice_pairs(setting(seq=seq), sight)
    # A minimum and a division rounded up that sympy leaves open are tried on numbers.
    for values in ({W: 3, X: 8, N: 5, R: 4, M: 2}, {W: 7, X: 1, N: 1, R: 3, M: 6}):
        assert sympy.sympify(found).subs(values) == 2 * pairs.subs(values)


@settings(max_examples=200, deadline=None)
@given(seq=st.integers(1, 60), limit=st.integers(1, 70), ratio=st.integers(1, 9))
def test_pairs_beside_counting_them_one_by_one(seq: int, limit: int, ratio: int) -> None:
    """The convention leaves out half of the diagonal; all else is exact."""
    queries = range(1, seq + 1)
    seen = min(limit, seq)
    window = sum(min(i, limit) for i in queries)
    chunks = sum((i - 1) % limit + 1 for i in queries)
    blocks = min(limit, seq // ratio)
    picked = sum(min(i // ratio, limit) for i in queries)

    def counted(sight: Sight) -> int:
        return int(twice_pairs(setting(seq=seq), sight))

    assert counted(Sight(window=limit)) == 2 * window - seen
    assert counted(Sight(top_k=limit)) == 2 * window - seen
    assert counted(Sight(chunk=limit)) == 2 * chunks - seq
    assert counted(Sight(ratio=ratio, top_k=limit)) == 2 * picked - (2 - ratio) * blocks


# --- attention -----------------------------------------------------------------------------

PLAIN = 2 * H + (4 * A + 4 * K) * D + 4 * A
"""Kept a token: the input, q, k, v, the context and a statistic a head and row."""

VARIANTS: dict[str, tuple[dict[str, Any], sympy.Expr]] = {
    "plain": ({}, PLAIN),
    "without position": ({"rope": False}, PLAIN),
    "sinks": ({"sinks": True}, PLAIN),
    "chunks": ({"chunk": W}, PLAIN),
    "picked by an earlier layer": ({"top_k": W}, PLAIN + 4 * W),
    "values of their own width": ({"value_head_dim": D_V}, PLAIN + 2 * (A + K) * (D_V - D)),
    "keys and values of another layer": ({"shares_kv": True}, PLAIN - 4 * K * D),
    "keys as values": ({"keys_as_values": True}, PLAIN),
    "clipped": ({"clip": True, "rope": False}, PLAIN + 2 * (A + 2 * K) * D),
    "a gate on each head": ({"gate": "head"}, PLAIN + 2 * A * D + 2 * A),
    "a gate on each element": ({"gate": "element"}, PLAIN + 4 * A * D),
    "norms of heads": ({"qk_norm": RMSNORM}, PLAIN + 2 * (A + K) * D + 4 * (A + K)),
    "norms of projections": (
        {"qk_norm": RMSNORM, "qk_norm_over": "projection"},
        PLAIN + 2 * (A + K) * D + 8,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_flash_attention_keeps(name: str) -> None:
    fields, kept = VARIANTS[name]
    here, operations = run(Attention(**HEADS, **fields), seq=W + X)
    assert same(saved_bytes(here, operations), B * (W + X) * kept)


@pytest.mark.parametrize(
    ("fields", "weights"),
    [
        ({}, H * D * (2 * A + 2 * K)),
        ({"sinks": True}, H * D * (2 * A + 2 * K) + A),
        ({"value_head_dim": D_V}, H * (A + K) * (D + D_V)),
        ({"shares_kv": True}, 2 * H * A * D),
        ({"keys_as_values": True}, H * D * (2 * A + K)),
        ({"gate": "head"}, H * D * (2 * A + 2 * K) + H * A),
        ({"gate": "element"}, H * D * (3 * A + 2 * K)),
        ({"qk_norm": RMSNORM}, H * D * (2 * A + 2 * K) + 2 * D),
        ({"qk_norm": RMSNORM, "qk_norm_over": "heads"}, (2 * H + 1) * D * (A + K)),
        ({"relative_buckets": 32}, H * D * (2 * A + 2 * K) + 32 * A),
    ],
)
def test_weights(fields: dict[str, Any], weights: sympy.Expr) -> None:
    _, operations = run(Attention(**HEADS, **fields), seq=X)
    assert same(sum(weight.numel for weight in weights_of(operations)), weights)


def test_an_unfused_sink_is_one_more_column() -> None:
    from tonnage.plan import Plan

    kept = []
    for sinks in (False, True):
        here = dataclasses.replace(setting(seq=X), plan=Plan(attention="eager"))
        layer = Layer(
            mixer=Attention(heads=A, kv_heads=A, head_dim=D, sinks=sinks),
            mlp=None,
            mixer_norm=None,
            mlp_norm=None,
        )
        kept.append(saved_bytes(here, layer_operations(here, layer)))
    width = sympy.Rational(sympy.expand(kept[1] - kept[0]) / (A * B * X))
    assert width in (2, 6)  # probabilities, and their fp32 copy where a stack keeps it


def test_chunks_divide_the_square() -> None:
    whole_square = core_flops(run(Attention(**HEADS), seq=W * 8)[1])
    cut = core_flops(run(Attention(**HEADS, chunk=W), seq=W * 8)[1])
    assert same(whole_square, 8 * cut)


# --- an indexer ----------------------------------------------------------------------------


def test_an_indexer_scores_every_key_and_keeps_nothing() -> None:
    mixer = LatentAttention(
        heads=A,
        query_rank=Q,
        kv_rank=R,
        nope_head_dim=D,
        rope_head_dim=D,
        value_head_dim=D_V,
        top_k=W,
    )
    picks = dataclasses.replace(mixer, indexer=Indexer(**INDEXER, query_rank=Q))
    here, with_one = run(picks, seq=W + X)
    _, without = run(mixer, seq=W + X)
    tokens = B * (W + X)
    projections = Q * A_I * D_I + H * D_I + H * A_I
    scores = A_I * (D_I + 1) * tokens * (W + X)
    extra = forward_flops(with_one) - forward_flops(without)
    assert same(extra, 2 * tokens * projections + scores)
    assert same(saved_bytes(here, with_one), saved_bytes(here, without))
    more = weights_of([op for op in with_one if op.name.startswith("attention.indexer")])
    assert same(sum(weight.numel for weight in more), projections + 2 * D_I)
    assert not any(weight.trains for weight in more)
    backward = sum(op.flops_backward for op in with_one) - sum(op.flops_backward for op in without)
    assert backward == 0


def test_sparse_attention_is_linear_beyond_its_keys() -> None:
    core = core_flops(run(Attention(**HEADS, top_k=W), seq=W + X)[1])
    assert same(core, 4 * A * D * B * (W * (W + X) - W**2 / 2))


def test_scores_of_heads_without_weights() -> None:
    """MiniMax-M3 compares its heads' scores by their largest, which is no product."""
    bare = Indexer(**{**INDEXER, "head_weights": False}, query_rank=None)
    found = score_flops(setting(seq=X), bare, Sight(top_k=W))
    assert same(found, A_I * D_I * B * X**2)


# --- compressed attention ------------------------------------------------------------------

V4: dict[str, Any] = {
    "heads": A,
    "head_dim": D,
    "query_rank": Q,
    "output_groups": G,
    "output_rank": R_O,
    "window": W,
}
PROJECTED = H * Q + Q * A * D + H * D + A * D * R_O + G * R_O * H
KEPT_V4 = 2 * H + 4 * Q + 8 + 8 * A + 8 * A * D + 2 * D + 2 * G * R_O


def test_a_window_alone() -> None:
    here, operations = run(CompressedAttention(**V4), seq=W + X)
    tokens = B * (W + X)
    pairs = W * (W + X) - W**2 / 2
    assert same(forward_flops(operations), 2 * tokens * PROJECTED + 4 * A * D * B * pairs)
    weights = sum(weight.numel for weight in weights_of(operations))
    assert same(weights, PROJECTED + Q + D + A)
    assert same(saved_bytes(here, operations), tokens * (KEPT_V4 + 2 * D))


@pytest.mark.parametrize("overlapping", [False, True])
def test_compressed_blocks_beside_the_window(overlapping: bool) -> None:
    mixer = CompressedAttention(**V4, ratio=R, overlapping=overlapping)
    seq = W * R * N
    here, operations = run(mixer, seq=seq)
    values = {W: 8, R: 4, N: 3, H: 64, A: 6, D: 16, Q: 24, G: 2, R_O: 10, B: 2}
    tokens = B * seq
    wide = D * (2 if overlapping else 1)
    pairs = W * seq - W**2 / 2 + seq**2 / (2 * R)
    flops = 2 * tokens * (PROJECTED + 2 * H * wide) + 4 * A * D * B * pairs
    assert forward_flops(operations).subs(values) == flops.subs(values)
    weights = sum(weight.numel for weight in weights_of(operations))
    assert same(weights, PROJECTED + Q + D + A + 2 * H * wide + R * wide + D)
    # Near and far keys in one tensor; values and weights of the sums; the blocks' norm.
    more = 2 * D + 4 * wide + (2 * D + 2 * D + 4) / R
    assert saved_bytes(here, operations).subs(values) == (tokens * (KEPT_V4 + more)).subs(values)


def test_an_indexer_of_blocks() -> None:
    small = Indexer(**{**INDEXER, "key_norm": RMSNORM}, query_rank=Q)
    mixer = CompressedAttention(**V4, ratio=R, overlapping=True, top_k=M, indexer=small)
    seq = W * R * N
    here, operations = run(mixer, seq=seq)
    alone = dataclasses.replace(mixer, indexer=None)
    _, without = run(alone, seq=seq)
    values = {W: 8, R: 4, N: 9, M: 5, H: 64, A: 6, D: 16, Q: 24, G: 2, R_O: 10, B: 2}
    values |= {A_I: 3, D_I: 8}
    tokens = B * seq
    projections = Q * A_I * D_I + H * A_I + 4 * H * D_I
    scores = 2 * A_I * (D_I + 1) * B * seq**2 / (2 * R)
    extra = forward_flops(operations) - forward_flops(without)
    assert extra.subs(values) == (2 * tokens * projections + scores).subs(values)
    assert same(saved_bytes(here, operations).subs(values), saved_bytes(here, without).subs(values))


# --- hyper-connections ---------------------------------------------------------------------


def test_hyper_connections() -> None:
    """Each part: coefficients from all streams, a mixture in, a mixture out."""
    here = setting(seq=X, streams=N)
    mixer = Attention(**HEADS)
    layer = Layer(mixer=mixer, mlp=None, mixer_norm=None, mlp_norm=None, streams=N)
    operations = layer_operations(here, layer)
    _, alone = run(mixer, seq=X)
    tokens = B * X
    count = 2 * N + N**2
    extra = forward_flops(operations) - forward_flops(alone)
    assert same(extra, tokens * (2 * N * H * count + 2 * N**2 * H))
    weights = sum(weight.numel for weight in weights_of(operations))
    plain = sum(weight.numel for weight in weights_of(alone))
    assert same(weights - plain, count * N * H + count + 3)
    # The streams, the coefficients and the part's output; its input is one mixture either way.
    kept = saved_bytes(here, operations) - saved_bytes(setting(seq=X), alone)
    assert same(kept, tokens * (2 * N * H + 4 * count + 2 * H))


# --- parts of a layer ----------------------------------------------------------------------


def layered(layer: Layer, **numeric: Any) -> tuple[Setting, Operations]:
    here = setting(**numeric)
    return here, layer_operations(here, layer)


BOTH_WAYS = Attention(heads=A, kv_heads=A, head_dim=D, rope=False, causal=False)
DENSE = MLP(intermediate=F, gated=False, activation="gelu")


def test_norms_behind_the_sums_keep_what_norms_before_the_parts_keep() -> None:
    """The input of each norm and of each part: four tensors of the stream either way."""
    before = Layer(mixer=BOTH_WAYS, mlp=DENSE, mixer_norm=LAYERNORM, mlp_norm=LAYERNORM)
    behind = dataclasses.replace(before, norm_after_sum=True)
    kept = [saved_bytes(*layered(layer, seq=X)) for layer in (before, behind)]
    assert same(kept[0], kept[1])
    flops = [forward_flops(layered(layer, seq=X)[1]) for layer in (before, behind)]
    assert same(flops[0], flops[1])
    assert same(flops[0], B * X * (8 * A * D * H + 4 * H * F + 4 * A * D * X))


def test_cross_attention_reads_an_encoder_as_long_as_the_sequence() -> None:
    layer = Layer(
        mixer=None,
        mlp=None,
        mixer_norm=None,
        mlp_norm=None,
        cross=dataclasses.replace(BOTH_WAYS, cross=True),
        cross_norm=RMSNORM,
    )
    here, operations = layered(layer, seq=X)
    assert same(forward_flops(operations), B * X * (8 * A * D * H + 4 * A * D * X))
    weights = sum(weight.numel for weight in weights_of(operations))
    assert same(weights, 4 * A * D * H + H)
    assert all("attention" not in weight.name for weight in weights_of(operations))
    # Norm and its input, the encoder's output, q, k, v, context, statistics.
    kept = B * X * (4 * H + 4 + 2 * H + 8 * A * D + 4 * A)
    assert same(saved_bytes(here, operations), kept)


def test_an_input_of_its_own() -> None:
    layer = Layer(mixer=None, mlp=None, mixer_norm=None, mlp_norm=None, per_layer_input=N)
    here, operations = layered(layer, seq=X)
    assert same(forward_flops(operations), 4 * B * X * H * N)
    weights = sum(weight.numel for weight in weights_of(operations))
    assert same(weights, 2 * H * N + H)
    # x; gate, activation, product and the input; what the norm keeps.
    assert same(saved_bytes(here, operations), B * X * (2 * H + 8 * N + 2 * H + 4))


def test_a_scale_of_each_channel_keeps_the_branch() -> None:
    plain = Layer(mixer=BOTH_WAYS, mlp=None, mixer_norm=None, mlp_norm=None)
    scaled = dataclasses.replace(plain, layer_scale=True)
    kept = [saved_bytes(*layered(layer, seq=X)) for layer in (plain, scaled)]
    assert same(kept[1] - kept[0], 2 * B * X * H)


def test_experts_beside_an_mlp_read_the_stream() -> None:
    """Gemma 4: three more norms and a scale an expert; the router has a norm of its own."""
    expert = dataclasses.replace(DENSE, gated=True)
    plain = MoE(experts=8, top_k=2, expert=expert, shared=expert)
    beside = dataclasses.replace(
        plain,
        expert_scale=True,
        router_norm=RMSNORM,
        input_norm=RMSNORM,
        output_norm=RMSNORM,
        shared_output_norm=RMSNORM,
    )
    layers = [
        Layer(mixer=None, mlp=moe, mixer_norm=None, mlp_norm=RMSNORM) for moe in (plain, beside)
    ]
    found = [layered(layer, seq=X) for layer in layers]
    weights = [sum(weight.numel for weight in weights_of(done)) for _, done in found]
    assert same(weights[1] - weights[0], 4 * H + 8)
    # Normed inputs of router and experts; inputs of the two norms behind; four statistics.
    more = saved_bytes(*found[1]) - saved_bytes(*found[0])
    assert same(more, B * X * (2 * H + 4 * H + 16))
