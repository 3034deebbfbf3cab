"""OLMo 1 to 3 (arXiv 2402.00838, 2501.00656, 2512.13961) and OLMoE (arXiv 2409.02060).

OLMo has LayerNorms without weights; OLMo 2 puts RMSNorms behind each part and over the
whole projections of queries and keys; OLMo 3 adds windows on three layers of four.
"""

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
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM, Norm

BARE: Final = Norm(kind="layernorm", weight=False)
OLMO3_PATTERN: Final = 4
OLMO3_WINDOW: Final = 4096


def read_olmo(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``olmo``."""
    layer = replace(
        pre_norm_layer(_attention(keys), gated_mlp(keys)), mixer_norm=BARE, mlp_norm=BARE
    )
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False, final_norm=BARE)


def read_olmo2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``olmo2``."""
    return decoder(keys, layers=(_post_norm_layer(keys),) * layer_count(keys), tied=False)


def read_olmo3(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``olmo3``."""
    count = layer_count(keys)
    pattern = (SLIDING if (i + 1) % OLMO3_PATTERN else FULL for i in range(count))
    kinds = layer_types(keys, default=pattern)
    window = keys.optional_count("sliding_window", default=OLMO3_WINDOW)
    layers = windowed(keys, _post_norm_layer(keys), kinds, window=window)
    return decoder(keys, layers=layers, tied=False)


def read_olmoe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``olmoe``: every layer routes."""
    moe = mixture(
        keys, experts=keys.count("num_experts", "num_local_experts"), expert=gated_mlp(keys)
    )
    layer = pre_norm_layer(_normalised(_attention(keys)), moe)
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)


def _attention(keys: Keys) -> Attention:
    bias = keys.flag("attention_bias", default=False)
    attention = grouped_query_attention(keys, qkv_bias=bias, output_bias=bias)
    return replace(attention, clip=keys.is_set("clip_qkv"))


def _normalised(attention: Attention) -> Attention:
    return replace(attention, qk_norm=RMSNORM, qk_norm_over="projection")


def _post_norm_layer(keys: Keys) -> Layer:
    return Layer(
        mixer=_normalised(_attention(keys)),
        mlp=gated_mlp(keys),
        mixer_norm=None,
        mixer_output_norm=RMSNORM,
        mlp_norm=None,
        mlp_output_norm=RMSNORM,
    )
