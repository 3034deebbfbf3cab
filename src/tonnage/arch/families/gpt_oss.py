"""gpt-oss (arXiv 2508.10925): sinks, windows on every other layer, biases on all projections."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    SLIDING,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    layer_types,
    mixture,
    pre_norm_layer,
    windowed,
)
from tonnage.arch.keys import Keys

HEAD_DIM: Final = 64
WINDOW: Final = 128


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gpt_oss``."""
    bias = keys.flag("attention_bias", default=True)
    attention = grouped_query_attention(
        keys, kv_required=True, head_dim_default=HEAD_DIM, qkv_bias=bias, output_bias=bias
    )
    moe = mixture(
        keys,
        experts=keys.count("num_local_experts", "num_experts"),
        expert=gated_mlp(keys, bias=True),
    )
    layer = pre_norm_layer(replace(attention, sinks=True), replace(moe, router_bias=True))
    count = layer_count(keys)
    kinds = layer_types(keys, default=(FULL if i % 2 else SLIDING for i in range(count)))
    window = keys.optional_count("sliding_window", default=WINDOW)
    return decoder(keys, layers=windowed(keys, layer, kinds, window=window), tied=False)
