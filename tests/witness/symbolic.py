"""Architectures and settings made of symbols, shared by the tests of formulas."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy

from tonnage.arch import LAYERNORM, MLP, Architecture, Attention, Layer
from tonnage.ledger import whole
from tonnage.plan import Plan, Setting
from tonnage.runtime import RUNTIMES

S, B, H, A, T, L, V, F, K, D = sympy.symbols("s b h a t L V f k d", positive=True, integer=True)


def gpt(dropout: float = 0.1) -> Architecture:
    """A GPT of symbols: heads of width h/a, an MLP of 4h, dropout, learnt positions."""
    width: Any = H / A
    heads: Any = A
    intermediate: Any = 4 * H
    layer = Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=width,
            qkv_bias=True,
            output_bias=True,
            rope=False,
            dropout=dropout,
        ),
        mlp=MLP(intermediate=intermediate, gated=False, activation="gelu", bias=True),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        dropout=dropout,
    )
    hidden: Any = H
    vocab: Any = V
    return Architecture(
        name="gpt",
        family="gpt2",
        hidden=hidden,
        vocab=vocab,
        layers=(layer,),
        final_norm=LAYERNORM,
        tied_embeddings=True,
        max_positions=2048,
        learned_positions=2048,
        embedding_dropout=dropout,
    )


def setting(architecture: Architecture, runtime: str, plan: Plan, **fields: Any) -> Setting:
    """A symbolic run of an architecture under a runtime."""
    numeric: dict[str, Any] = {"mbs": B, "seq": S, "tp": 1}
    numeric.update({name: value for name, value in fields.items() if name != "sp"})
    return dataclasses.replace(
        whole(architecture, plan), runtime=RUNTIMES[runtime], sp=fields.get("sp", False), **numeric
    )
