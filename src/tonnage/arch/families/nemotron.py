"""Nemotron-4 and Minitron (arXiv 2402.16819, 2407.14679): squared ReLU, LayerNorm1p."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    activation,
    decoder,
    grouped_query_attention,
    layer_count,
    partial_rotary,
)
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.norm import LAYERNORM

ROTARY_SHARE: Final = 0.5


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``nemotron``."""
    bias = keys.flag("attention_bias", default=False)
    keys.require("num_key_value_heads")
    attention = grouped_query_attention(keys, qkv_bias=bias, output_bias=bias)
    layer = Layer(
        mixer=replace(attention, rope_fraction=partial_rotary(keys, default=ROTARY_SHARE)),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="relu2"),
            bias=keys.flag("mlp_bias", default=False),
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
    )
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False, final_norm=LAYERNORM)
