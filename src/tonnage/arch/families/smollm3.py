"""SmolLM3 (Hugging Face, 2025): Llama whose every fourth layer has no position."""

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
    pre_norm_layer,
    rotary_layers,
)
from tonnage.arch.keys import Keys

KV_HEADS: Final = 4


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``smollm3``."""
    bias = keys.flag("attention_bias", default=False)
    attention = grouped_query_attention(keys, kv_default=KV_HEADS, qkv_bias=bias, output_bias=bias)
    mlp = gated_mlp(keys, bias=keys.flag("mlp_bias", default=False))
    count = layer_count(keys)
    turned = rotary_layers(keys, count)
    slides = keys.flag("use_sliding_window", default=False)
    window = keys.optional_count("sliding_window") if slides else None
    pattern = (FULL if window is None or rope else SLIDING for rope in turned)
    kinds = layer_types(keys, default=pattern)
    if window is None and SLIDING in kinds:
        keys.fail("sliding_window", None, problem="is missing", accepted="a positive whole number")
    layers = tuple(
        pre_norm_layer(
            replace(attention, rope=rope, window=window if kind == SLIDING else None), mlp
        )
        for kind, rope in zip(kinds, turned, strict=True)
    )
    return decoder(keys, layers=layers, tied=True)
