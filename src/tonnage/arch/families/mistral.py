"""Mistral (arXiv 2310.06825) and Mixtral (arXiv 2401.04088): Llama with a window, with experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.keys import Keys
from tonnage.arch.mixer import Attention

MISTRAL_WINDOW: Final = 4096
"""The window of a Mistral file without the key (v0.1's); null turns it off (v0.3)."""


def read_mistral(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mistral``."""
    attention = _attention(keys, window_default=MISTRAL_WINDOW)
    layer = pre_norm_layer(attention, gated_mlp(keys))
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)


def read_mixtral(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mixtral``: every layer routes."""
    experts = keys.count("num_local_experts", "num_experts")
    moe = mixture(keys, experts=experts, expert=gated_mlp(keys))
    layer = pre_norm_layer(_attention(keys, window_default=None), moe)
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)


def _attention(keys: Keys, *, window_default: int | None) -> Attention:
    if keys.values.get("layer_types") is not None:  # some loaders obey the key, others do not
        keys.refuse("layer_types", problem="is not modelled in this family", accepted="no such key")
    return replace(
        grouped_query_attention(keys, kv_required=True),
        window=keys.optional_count("sliding_window", default=window_default),
    )
