"""GLM-4 (arXiv 2406.12793) dense, and GLM-4.5 to 4.7 with experts (arXiv 2508.06471)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    multi_token_prediction,
    partial_rotary,
    pre_norm_layer,
    shared_mixture,
)
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM

ROTARY_SHARE: Final = 0.5
HEAD_DIM: Final = 128


def read_glm(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``glm``."""
    layer = pre_norm_layer(_attention(keys, bias=True, head_dim=HEAD_DIM), gated_mlp(keys))
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)


def read_glm4(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``glm4``: a norm on both sides of each part."""
    layer = replace(
        pre_norm_layer(_attention(keys, bias=True, head_dim=HEAD_DIM), gated_mlp(keys)),
        mixer_output_norm=RMSNORM,
        mlp_output_norm=RMSNORM,
    )
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)


def read_glm4_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``glm4_moe``: dense first layers, a shared expert."""
    attention = _attention(keys, bias=False, head_dim=None)
    if keys.flag("use_qk_norm", default=False):
        attention = replace(attention, qk_norm=RMSNORM)
    count = layer_count(keys)
    first = keys.count("first_k_dense_replace", least=0, most=DEEPEST)
    sparse = pre_norm_layer(attention, shared_mixture(keys))
    dense = pre_norm_layer(attention, gated_mlp(keys))
    layers = tuple(sparse if i >= first else dense for i in range(count))
    return multi_token_prediction(keys, decoder(keys, layers=layers, tied=False), sparse)


def _attention(keys: Keys, *, bias: bool, head_dim: int | None) -> Attention:
    """Biases on queries, keys and values, but never on the output."""
    attention = grouped_query_attention(
        keys,
        kv_required=True,
        head_dim_default=head_dim,
        qkv_bias=keys.flag("attention_bias", default=bias),
    )
    return replace(attention, rope_fraction=partial_rotary(keys, default=ROTARY_SHARE))
