"""GPT-NeoX and Pythia (arXiv 2204.06745): parallel residual, partial rotary, untied head."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, decoder, even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM

ROTARY_SHARE: Final = 0.25
"""Share of a head that the rotary embedding turns in a file that does not say."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gpt_neox``."""
    layers = (_layer(keys),) * layer_count(keys)
    return replace(
        decoder(keys, layers=layers, tied=False, final_norm=LAYERNORM),
        embedding_dropout=keys.fraction("hidden_dropout", default=0.0),
    )


def _layer(keys: Keys) -> Layer:
    heads = keys.count("num_attention_heads")
    bias = keys.flag("attention_bias", default=True)
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=keys.count("hidden_size"), heads=heads),
            qkv_bias=bias,
            output_bias=bias,
            rope_fraction=_rope_fraction(keys),
            one_projection=True,
            dropout=keys.fraction("attention_dropout", default=0.0),
        ),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="gelu"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        # Both norms exist in both forms: with the parallel residual each reads the layer's input.
        mlp_norm=LAYERNORM,
        parallel=keys.flag("use_parallel_residual", default=True),
        dropout=keys.fraction("hidden_dropout", default=0.0),
    )


def _rope_fraction(keys: Keys) -> float:
    """``rotary_pct`` in the files on the hub, ``rope_parameters`` in those written since 2025."""
    if keys.values.get("rope_parameters") is None:
        return keys.fraction("rotary_pct", default=ROTARY_SHARE)
    return keys.nested("rope_parameters").fraction("partial_rotary_factor", default=ROTARY_SHARE)
