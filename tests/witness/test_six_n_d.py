"""FLOPs of a step are 6·N·D and the attention term: as a formula, and on real models.

N are the parameters that are multiplied: all but lookups (token embedding, learnt
positions), norms and biases; the output projection counts also where it is tied, and of
routed experts the ``K`` of ``E`` that a token visits.
"""

from __future__ import annotations

import dataclasses

import pytest
import sympy

from tests.witness.symbolic import H, L, S, V, gpt
from tonnage.arch import Architecture, Attention, LatentAttention, MoE, catalog
from tonnage.ledger import parameters, sequence_flops, stage_ledgers, whole, whole_stage

MODELS = (
    "gpt2",
    "gpt-neox-20b",
    "llama-3.1-8b",
    "mixtral-8x7b",
    "qwen1.5-moe-a2.7b",
    "qwen3-30b-a3b",
    "gemma-2-9b",
    "deepseek-v2-lite",
    "deepseek-v3",
)


def step_flops(architecture: Architecture, seq: object) -> sympy.Expr:
    setting = whole(architecture, seq=seq)
    return sequence_flops(setting, (whole_stage(architecture),), causal=False).model


def test_a_gpt_in_symbols() -> None:
    one, two = (dataclasses.replace(gpt(), layers=gpt().layers * count) for count in (1, 2))
    layer = sympy.expand(step_flops(two, S) - step_flops(one, S))
    ends = sympy.expand(step_flops(one, S) - layer)
    parameters_multiplied = 12 * H**2 * L + H * V
    expected = 6 * parameters_multiplied * S + 12 * L * S**2 * H
    assert sympy.expand(L * layer + ends - expected) == 0


def split_parameters(architecture: Architecture) -> tuple[int, int]:
    """Parameters that one token multiplies, and those it only looks up, scales or adds."""
    (ledger,) = stage_ledgers(whole(architecture), (whole_stage(architecture),))
    multiplied = other = 0
    for layer, operations in ledger.layers.items():
        count = architecture.kinds()[layer]
        for weight in (w for op in operations for w in op.weights):
            numel = count * weight.numel
            if weight.group == "expert":
                assert isinstance(layer.mlp, MoE)
                numel = numel * layer.mlp.top_k // layer.mlp.experts
            if len(weight.shape) == 2:
                multiplied += numel
            else:
                other += numel
    table = architecture.vocab * architecture.hidden
    multiplied += table
    other += architecture.learned_positions * architecture.hidden
    other += sum(w.numel for op in ledger.head for w in op.weights if len(w.shape) == 1)
    return multiplied, other + (0 if architecture.tied_embeddings else table)


def attention_term(architecture: Architecture, seq: int) -> int:
    """``6·a·(key width + value width)`` for each of the ``s·w`` pairs, w at most the window."""
    term = 0
    for layer in architecture.layers:
        mixer = layer.mixer
        if isinstance(mixer, LatentAttention):
            widths = mixer.nope_head_dim + mixer.rope_head_dim + mixer.value_head_dim
            seen = seq
        else:
            assert isinstance(mixer, Attention)
            widths, seen = 2 * mixer.head_dim, min(seq, mixer.window or seq)
        term += 6 * mixer.heads * widths * seq * seen
    return term


@pytest.mark.parametrize("name", MODELS)
def test_the_split_is_every_active_parameter(name: str) -> None:
    architecture = catalog.entries()[name].read()
    assert sum(split_parameters(architecture)) == parameters(architecture).active


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seq", [1, 1024, 8192])
def test_real_models_to_the_flop(name: str, seq: int) -> None:
    architecture = catalog.entries()[name].read()
    multiplied, _ = split_parameters(architecture)
    expected = 6 * multiplied * seq + attention_term(architecture, seq)
    assert step_flops(architecture, seq) == expected
