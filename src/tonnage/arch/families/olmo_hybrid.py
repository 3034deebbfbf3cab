"""OLMo Hybrid: three layers of Gated DeltaNet to one of attention.

The linear layers normalise what goes into each part, the others, as in OLMo 2, what comes
out of it (``OlmoHybridAttentionDecoderLayer`` in transformers).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, every_nth_full, gated_delta, mixed_layers
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM

INTERVAL: Final = 4
"""Layers to one with attention, of a config that does not list them."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``olmo_hybrid``.

    Heads and widths of the linear layers that a file leaves out follow from the attention's.
    """
    attention, mlp = _attention(keys), gated_mlp(keys)
    heads = keys.count("linear_num_key_heads", default=attention.heads)
    width = max(3 * keys.count("hidden_size") // (4 * heads), 1)
    key_width = keys.count("linear_key_head_dim", default=width)
    delta = gated_delta(
        keys,
        heads_default=attention.heads,
        key_width_default=width,
        value_width_default=2 * key_width,
    )
    full = Layer(
        mixer=attention,
        mlp=mlp,
        mixer_norm=None,
        mlp_norm=None,
        mixer_output_norm=RMSNORM,
        mlp_output_norm=RMSNORM,
    )
    parts = {FULL: full, LINEAR: pre_norm_layer(delta, mlp)}
    kinds = every_nth_full(layer_count(keys), INTERVAL)
    if FULL not in kinds:  # a short model has one all the same
        kinds = (*kinds[:-1], FULL)
    return decoder(keys, layers=mixed_layers(keys, parts, default=kinds), tied=False)


def _attention(keys: Keys) -> Attention:
    """Norms over the whole projections; a null ``rope_parameters`` turns nothing."""
    bias = keys.flag("attention_bias", default=False)
    attention = grouped_query_attention(keys, qkv_bias=bias, output_bias=bias, qk_norm=RMSNORM)
    turns = keys.values.get("rope_parameters") is not None
    return replace(attention, qk_norm_over="projection", rope=turns)
