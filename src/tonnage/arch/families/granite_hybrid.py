"""IBM's hybrids of Mamba-2 and attention: Bamba, and Granite 4 with a shared MLP and experts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, ibm_mamba2, mixed_layers
from tonnage.arch.feed_forward import FeedForward
from tonnage.arch.keys import Keys
from tonnage.arch.mixer import Attention

BAMBA_ROPE_FRACTION: Final = 0.5
"""Share of a head that rotary embedding turns, fixed in Bamba's class."""


def read_granite(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``granitemoehybrid``."""
    rope = keys.values.get("position_embedding_type")
    if rope not in (None, "nope", "rope"):
        keys.refuse("position_embedding_type", problem="is not modelled", accepted="nope or rope")
    attention = replace(_attention(keys), rope=rope == "rope")
    return _hybrid(keys, attention, _granite_mlp(keys), default=(LINEAR,) * layer_count(keys))


def read_bamba(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``bamba``."""
    count = layer_count(keys)
    full = keys.indices("attn_layer_indices", below=count)
    return _hybrid(
        keys,
        replace(_attention(keys), rope_fraction=BAMBA_ROPE_FRACTION),
        gated_mlp(keys, bias=keys.flag("mlp_bias", default=False)),
        default=(FULL if i in full else LINEAR for i in range(count)),
    )


def _attention(keys: Keys) -> Attention:
    bias = keys.flag("attention_bias", default=False)
    return grouped_query_attention(keys, kv_required=True, qkv_bias=bias, output_bias=bias)


def _granite_mlp(keys: Keys) -> FeedForward:
    """The shared MLP alone, or beside routed experts where there are any."""
    shared = gated_mlp(keys, width="shared_intermediate_size")
    experts = keys.count("num_local_experts", least=0)
    if not experts:
        return shared
    return mixture(keys, experts=experts, expert=gated_mlp(keys), shared=shared)


def _hybrid(
    keys: Keys, attention: Attention, mlp: FeedForward, *, default: Iterable[str]
) -> Architecture:
    parts = {FULL: pre_norm_layer(attention, mlp), LINEAR: pre_norm_layer(ibm_mamba2(keys), mlp)}
    return decoder(keys, layers=mixed_layers(keys, parts, default=default), tied=False)
