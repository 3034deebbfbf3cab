"""Recurrent mixers in symbols: linear in the sequence, with the published cost of a chunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.witness.symbolic import A, B, D, H, S
from tonnage.arch import (
    RMSNORM,
    Architecture,
    GatedDelta,
    Layer,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixer,
    ShortConvolution,
)
from tonnage.ledger import Operations, layer_operations, saved_bytes, whole
from tonnage.ledger.delta import CHUNK, chunk_flops
from tonnage.ledger.mamba import CHUNK as SCAN_CHUNK
from tonnage.ledger.operation import forward_flops
from tonnage.plan import Setting

N_K, N_V, D_K, D_V, R, C = sympy.symbols("n_k n_v d_k d_v r C", positive=True, integer=True)
HEADS, P, G, N, Q, INNER = sympy.symbols("n_h P G N Q i", positive=True, integer=True)
CHUNKS = sympy.Symbol("chunks", positive=True, integer=True)

DELTA: dict[str, Any] = {
    "key_heads": N_K,
    "value_heads": N_V,
    "key_head_dim": D_K,
    "value_head_dim": D_V,
    "conv_kernel": 4,
}
KIMI: dict[str, Any] = {**DELTA, "key_heads": N_V, "key_head_dim": D, "value_head_dim": D}
SSD: dict[str, Any] = {
    "heads": HEADS,
    "head_dim": P,
    "groups": G,
    "state": N,
    "conv_kernel": 4,
    "chunk": Q,
}

SYMBOLIC: dict[str, Any] = {
    "gated delta": GatedDelta(**DELTA),
    "kimi delta": GatedDelta(**KIMI, decay="channel", gate_rank=R),
    "lightning": LightningAttention(heads=A, head_dim=D, chunk=Q, norm=RMSNORM),
    "mamba": Mamba(inner=INNER, state=N, step_rank=R, conv_kernel=4),
    "mamba2": Mamba2(**SSD),
    "convolution": ShortConvolution(channels=C, conv_kernel=3),
}
# Bytes a token in 16 bits, beside what the layer's norm keeps: 4·h of input and output, 4 of
# its statistic. The term in parentheses is the mixer's own.
KEPT: dict[str, sympy.Expr] = {
    "gated delta": 8 * N_K * D_K + 8 * N_K + 10 * N_V * D_V + (16 + 2 * CHUNK) * N_V,
    "kimi delta": 20 * N_V * D + (18 + 4 * CHUNK) * N_V + 4 * R,
    "lightning": 18 * A * D + 4,
    "mamba": 8 * INNER + 2 * R + 8 * N + 8 * INNER * N / SCAN_CHUNK,
    "mamba2": 8 * HEADS * P + 4 * G * N + 2 * HEADS + 4 * G,
    "convolution": 12 * C,
}
SQUARES = 2 * CHUNK**2 * (3 * D_K + 2 * D_V) + 6 * CHUNK * D_K * D_V
INVERSE = sympy.Rational(CHUNK * (CHUNK - 1) * (CHUNK - 2), 3)
SCANS: dict[str, tuple[int | sympy.Expr, sympy.Expr]] = {
    "gated delta": (CHUNK, N_V * (SQUARES + INVERSE)),
    "kimi delta": (CHUNK, N_V * (SQUARES.subs({D_K: D, D_V: D}) + INVERSE)),
    "lightning": (Q, A * (4 * Q**2 * D + 4 * Q * D**2)),
    "mamba": (SCAN_CHUNK, SCAN_CHUNK * 6 * INNER * N),
    "mamba2": (Q, 2 * Q**2 * (G * N + HEADS * P) + 4 * Q * HEADS * N * P),
}
STATES: dict[str, sympy.Expr] = {
    "gated delta": 2 * N_V * D_K * D_V,
    "kimi delta": 2 * N_V * D**2,
    "lightning": 4 * A * D**2,
    "mamba2": 4 * HEADS * P * N,
}


def run(mixer: Mixer, **numeric: Any) -> tuple[Setting, Operations]:
    layer = Layer(mixer=mixer, mlp=None, mixer_norm=RMSNORM, mlp_norm=None)
    hidden: Any = numeric.pop("hidden", 64)
    architecture = Architecture(
        name="recurrent",
        family="mamba",
        hidden=hidden,
        vocab=64,
        layers=(layer,),
        final_norm=RMSNORM,
        tied_embeddings=True,
        max_positions=None,
    )
    setting = dataclasses.replace(whole(architecture), **numeric)
    return setting, layer_operations(setting, layer)


def of_chunks(name: str, mixer: Mixer) -> tuple[Setting, Operations]:
    """The mixer over a sequence of whole chunks."""
    chunk = SCANS[name][0] if name in SCANS else 1
    return run(mixer, hidden=H, mbs=B, seq=CHUNKS * chunk)


def named(operations: Operations, end: str) -> Any:
    return next(op for op in operations if op.name.endswith(end))


@pytest.mark.parametrize("name", SYMBOLIC)
def test_saved_bytes_are_linear_in_the_sequence(name: str) -> None:
    setting, operations = of_chunks(name, SYMBOLIC[name])
    formula = setting.seq * B * (4 * H + 4 + KEPT[name])
    assert sympy.simplify(saved_bytes(setting, operations) - formula) == 0


@pytest.mark.parametrize("name", SCANS)
def test_a_chunk_costs_what_its_products_cost(name: str) -> None:
    _, operations = of_chunks(name, SYMBOLIC[name])
    scan = named(operations, ".scan")
    assert sympy.simplify(scan.flops - CHUNKS * B * SCANS[name][1]) == 0
    assert sympy.simplify(scan.flops_backward - 2 * scan.flops) == 0
    assert scan.flops_inside.subs(dict.fromkeys(scan.flops_inside.free_symbols, 2)) > 0


@pytest.mark.parametrize("name", STATES)
def test_each_chunk_has_a_state(name: str) -> None:
    _, operations = of_chunks(name, SYMBOLIC[name])
    (states,) = (t for t in named(operations, ".scan").outputs if t.name.endswith(".states"))
    assert sympy.simplify(states.bytes - CHUNKS * B * STATES[name]) == 0
    assert states not in named(operations, ".scan").saves


def test_a_sequence_pays_for_its_last_chunk_whole() -> None:
    _, part = run(GatedDelta(**SMALL_DELTA), seq=65)
    _, full = run(GatedDelta(**SMALL_DELTA), seq=128)
    assert named(part, ".scan").flops == named(full, ".scan").flops


def test_a_decode_step_is_what_the_recurrence_costs() -> None:
    """At long chunks' other end, Q = 1, the duality is the recurrence: 2 + 2 FLOPs a state."""
    _, operations = run(SYMBOLIC["mamba2"], hidden=H, mbs=B, seq=S)
    per_token = named(operations, ".scan").flops.subs({Q: 1}) / (S * B)
    assert sympy.simplify(per_token - (4 * HEADS * P * N + 2 * (G * N + HEADS * P))) == 0


SMALL_DELTA: dict[str, Any] = {
    "key_heads": 2,
    "value_heads": 4,
    "key_head_dim": 8,
    "value_head_dim": 16,
    "conv_kernel": 4,
}
SIZES = st.integers(1, 6)
EVEN = st.integers(1, 4).map(lambda n: 4 * n)


@st.composite
def deltas(draw: st.DrawFn) -> Mixer:
    heads = draw(EVEN)
    channel = draw(st.booleans())
    return GatedDelta(
        key_heads=heads,
        value_heads=heads if channel else heads * draw(st.integers(1, 3)),
        key_head_dim=draw(SIZES),
        value_head_dim=draw(SIZES),
        conv_kernel=draw(SIZES),
        decay="channel" if channel else "head",
        gate_rank=draw(SIZES) if channel else None,
    )


@st.composite
def dualities(draw: st.DrawFn) -> Mixer:
    groups = draw(EVEN)
    return Mamba2(
        heads=groups * draw(st.integers(1, 3)),
        head_dim=draw(SIZES),
        groups=groups,
        state=draw(SIZES),
        conv_kernel=draw(SIZES),
        chunk=draw(st.sampled_from([16, 64, 256])),
        conv_bias=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


MIXERS: st.SearchStrategy[Mixer] = st.one_of(
    deltas(),
    dualities(),
    st.builds(
        Mamba,
        inner=EVEN,
        state=SIZES,
        step_rank=SIZES,
        conv_kernel=SIZES,
        norm=st.sampled_from([None, RMSNORM]),
    ),
    st.builds(
        LightningAttention,
        heads=EVEN,
        head_dim=SIZES,
        chunk=st.sampled_from([16, 256]),
        norm=st.just(RMSNORM),
    ),
    st.builds(ShortConvolution, channels=EVEN, conv_kernel=SIZES, bias=st.booleans()),
)


@settings(deadline=None)
@given(mixer=MIXERS, chunks=st.integers(1, 4), batch=st.integers(1, 3))
def test_twice_the_sequence_is_twice_of_all(mixer: Mixer, chunks: int, batch: int) -> None:
    seq = SCAN_CHUNK * chunks
    once, operations = run(mixer, seq=seq, mbs=batch)
    twice, doubled = run(mixer, seq=2 * seq, mbs=batch)
    assert forward_flops(doubled) == 2 * forward_flops(operations)
    assert saved_bytes(twice, doubled) == 2 * saved_bytes(once, operations)


REPLICATED = ("mixer_norm.weight", "delta.norm.weight", "_down.weight", "step_norm.weight")


@settings(deadline=None)
@given(mixer=MIXERS, tp=st.sampled_from([2, 4]))
def test_tensor_parallel_ranks_share_every_weight_but_norms_and_latents(
    mixer: Mixer, tp: int
) -> None:
    local, shared = ((w for op in run(mixer, tp=t)[1] for w in op.weights) for t in (tp, 1))
    for part, full in zip(local, shared, strict=True):
        alone = part.name.endswith((*REPLICATED, "b_norm.weight", "c_norm.weight"))
        row_bias = part.name.endswith("output.bias")
        assert part.numel * (1 if alone or row_bias else tp) == full.numel, part.name


def counter() -> Callable[[Callable[[], object]], int]:
    torch = pytest.importorskip("torch")
    flops = pytest.importorskip("torch.utils.flop_counter")

    def count(call: Callable[[], object]) -> int:
        with torch.device("meta"), flops.FlopCounterMode(display=False) as mode:
            call()
        return int(mode.get_total_flops())

    return count


def test_the_delta_rule_of_transformers_makes_these_products() -> None:
    """All but the WY representation, for which its class calls a triangular solver."""
    pytest.importorskip("transformers")
    import torch
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    spec = GatedDelta(**{**SMALL_DELTA, "key_heads": 4})
    chunks, heads = 3, spec.value_heads
    wide = [(1, chunks * CHUNK, heads, w) for w in (8, 8, 16)]
    flat = (1, chunks * CHUNK, heads)

    def call() -> object:
        q, k, v = (torch.empty(shape) for shape in wide)
        gates = {"g": torch.empty(flat), "beta": torch.empty(flat)}
        return qwen.torch_chunk_gated_delta_rule(q, k, v, **gates)

    forward, _ = chunk_flops(spec)
    solved = 2 * CHUNK**2 * (8 + 16) + CHUNK * (CHUNK - 1) * (CHUNK - 2) // 3
    assert counter()(call) == chunks * heads * (forward - solved)
