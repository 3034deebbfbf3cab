"""Falcon (arXiv 2311.16867): parallel residual, multi-query or grouped keys, rotary or ALiBi."""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, decoder, even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM, Norm

TRAINED_LENGTH: Final = 2048
"""The context of a file that does not say, as FalconConfig has it."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``falcon``."""
    hidden = keys.count("hidden_size", "n_embed")
    bias = keys.flag("bias", default=False)
    norms = _norms(keys)
    layer = Layer(
        mixer=_attention(keys, hidden, bias=bias),
        mlp=MLP(
            intermediate=keys.optional_count("ffn_hidden_size") or 4 * hidden,
            gated=False,
            activation=activation(keys, "activation", default="gelu"),
            bias=bias,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=norms,
        parallel=keys.flag("parallel_attn", default=True),
        dropout=keys.fraction("hidden_dropout", default=0.0),
    )
    return decoder(
        keys,
        layers=(layer,) * layer_count(keys),
        tied=True,
        positions_default=TRAINED_LENGTH,
        final_norm=LAYERNORM,
        hidden=hidden,
    )


def _norms(keys: Keys) -> Norm | None:
    """The MLP's own norm: with the parallel residual, only where there are two of them."""
    if not keys.flag("parallel_attn", default=True):
        return LAYERNORM
    grouped = keys.flag("new_decoder_architecture", default=False)
    count = keys.optional_count("num_ln_in_parallel_attn") or (2 if grouped else 1)
    return LAYERNORM if count == 2 else None


def _attention(keys: Keys, hidden: int, *, bias: bool) -> Attention:
    heads = keys.count("num_attention_heads")
    grouped = keys.flag("new_decoder_architecture", default=False)
    if grouped:
        kv_heads = keys.optional_count("num_kv_heads") or heads
    else:
        kv_heads = 1 if keys.flag("multi_query", default=True) else heads
    if heads % kv_heads:
        keys.fail(
            "num_kv_heads",
            kv_heads,
            problem=f"does not divide the {heads} attention heads",
            accepted=f"a divisor of {heads}",
        )
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=even_head_dim(keys, hidden=hidden, heads=heads),
        qkv_bias=bias,
        output_bias=bias,
        rope=not keys.flag("alibi", default=False),
        dropout=keys.fraction("attention_dropout", default=0.0),
    )
