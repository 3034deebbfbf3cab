"""StarCoder 2 (arXiv 2402.19173): grouped queries, biases everywhere, LayerNorm, a window."""

from __future__ import annotations

from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    activation,
    decoder,
    grouped_query_attention,
    layer_count,
)
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.norm import LAYERNORM


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``starcoder2``."""
    bias = keys.flag("use_bias", default=True)
    attention = grouped_query_attention(keys, kv_required=True, qkv_bias=bias, output_bias=bias)
    layer = Layer(
        mixer=replace(attention, window=keys.optional_count("sliding_window")),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="gelu_pytorch_tanh"),
            bias=bias,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        dropout=keys.fraction("residual_dropout", default=0.0),
    )
    return replace(
        decoder(keys, layers=(layer,) * layer_count(keys), tied=True, final_norm=LAYERNORM),
        embedding_dropout=keys.fraction("embedding_dropout", default=0.0),
    )
