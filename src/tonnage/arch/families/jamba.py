"""Jamba (arXiv 2403.19887): Mamba, an attention layer in eight, experts in every other layer."""

from __future__ import annotations

from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    activation,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.mamba import step_rank
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.norm import RMSNORM
from tonnage.arch.recurrent import Mamba


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``jamba``. Its attention has no positions."""
    if keys.values.get("sliding_window") is not None:
        keys.refuse("sliding_window", problem="is not modelled here", accepted="null")
    attends = _recurring(keys, "attn_layer_period", "attn_layer_offset")
    routes = _recurring(keys, "expert_layer_period", "expert_layer_offset")
    experts = keys.count("num_experts", "num_local_experts")
    attention = replace(grouped_query_attention(keys, kv_required=True), rope=False)
    scan, dense = _mamba(keys), gated_mlp(keys)
    routed = mixture(keys, experts=experts, expert=dense) if experts > 1 else dense
    layers = tuple(
        pre_norm_layer(attention if i in attends else scan, routed if i in routes else dense)
        for i in range(layer_count(keys))
    )
    return decoder(keys, layers=layers, tied=False)


def _recurring(keys: Keys, period_key: str, offset_key: str) -> range:
    """The layers ``offset``, ``offset + period`` and so on."""
    period = keys.count(period_key, most=DEEPEST)
    offset = keys.count(offset_key, least=0, most=period - 1)
    return range(offset, DEEPEST + 1, period)


def _mamba(keys: Keys) -> Mamba:
    activation(keys, "hidden_act", default="silu")
    return Mamba(
        inner=keys.count("mamba_expand") * keys.count("hidden_size"),
        state=keys.count("mamba_d_state"),
        step_rank=step_rank(keys, "mamba_dt_rank"),
        conv_kernel=keys.count("mamba_d_conv"),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        bias=keys.flag("mamba_proj_bias", default=False),
        norm=RMSNORM,
    )
