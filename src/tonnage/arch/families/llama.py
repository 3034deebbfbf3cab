"""Llama 1 to 3 (arXiv 2302.13971, 2307.09288, 2407.21783): RMSNorm, rotary, SwiGLU, GQA."""

from __future__ import annotations

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
)
from tonnage.arch.keys import Keys


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``llama``."""
    bias = keys.flag("attention_bias", default=False)
    layer = pre_norm_layer(
        grouped_query_attention(keys, qkv_bias=bias, output_bias=bias),
        gated_mlp(keys, bias=keys.flag("mlp_bias", default=False)),
    )
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)
