"""Command R (Cohere, 2024) and Command R7B, A (arXiv 2504.00698): parallel, biasless LayerNorm."""

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
)
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import Norm

BIASLESS: Final = Norm(kind="layernorm")
PATTERN: Final = 4
WINDOW: Final = 4096


def read_cohere(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``cohere``; R+ normalises each head by itself."""
    attention = _attention(keys)
    if keys.flag("use_qk_norm", default=False):
        attention = replace(attention, qk_norm=BIASLESS, qk_norm_over="heads")
    layers = (_layer(keys, attention),) * layer_count(keys)
    return decoder(keys, layers=layers, tied=True, final_norm=BIASLESS)


def read_cohere2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``cohere2``.

    Windowed layers turn queries and keys; every fourth layer sees all and has no position.
    """
    attention = _attention(keys)
    every = keys.count("sliding_window_pattern", default=PATTERN, most=DEEPEST)
    count = layer_count(keys)
    kinds = layer_types(keys, default=(SLIDING if (i + 1) % every else FULL for i in range(count)))
    window = keys.optional_count("sliding_window", default=WINDOW)
    sliding = _layer(keys, replace(attention, window=window))
    whole = _layer(keys, replace(attention, rope=window is None))
    layers = tuple(sliding if kind == SLIDING else whole for kind in kinds)
    return decoder(keys, layers=layers, tied=True, final_norm=BIASLESS)


def _attention(keys: Keys) -> Attention:
    bias = keys.flag("attention_bias", default=False)
    return grouped_query_attention(keys, qkv_bias=bias, output_bias=bias)


def _layer(keys: Keys, attention: Attention) -> Layer:
    return Layer(
        mixer=attention, mlp=gated_mlp(keys), mixer_norm=BIASLESS, mlp_norm=None, parallel=True
    )
