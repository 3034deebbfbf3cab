"""MiMo (arXiv 2505.07608) and MiMo-V2-Flash (arXiv 2601.02780): prediction of further tokens.

MiMo is Qwen2's layer. V2-Flash has five windowed layers with sinks and twice the key and
value heads to each that sees all, and values narrower than keys.
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
    multi_token_prediction,
    partial_rotary,
    pre_norm_layer,
)
from tonnage.arch.families.qwen import read_qwen2
from tonnage.arch.keys import Keys
from tonnage.arch.mixer import Attention

HEAD_DIM: Final = 192
VALUE_HEAD_DIM: Final = 128
PATTERN: Final = 6
ROTARY_SHARE: Final = 0.334
WINDOW: Final = 129


def read_mimo(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mimo``; its remote code is Qwen2's class."""
    if not keys.flag("attention_bias", default=True):
        keys.refuse("attention_bias", problem="is not modelled", accepted="true")
    facts = read_qwen2(keys)
    return multi_token_prediction(keys, facts, facts.layers[-1])


def read_v2_flash(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mimo_v2_flash``."""
    count = layer_count(keys)
    full, sliding = _mixers(keys)
    pattern = (FULL if i == 0 or (i + 1) % PATTERN == 0 else SLIDING for i in range(count))
    kinds = layer_types(keys, default=pattern)
    hybrid = keys.switches("hybrid_layer_pattern", length=count)
    if hybrid is not None and keys.values.get("layer_types") is None:
        kinds = tuple(SLIDING if slides else FULL for slides in hybrid)
    dense = gated_mlp(keys)
    moe = mixture(
        keys,
        experts=keys.count("n_routed_experts", "num_local_experts"),
        expert=gated_mlp(keys, width="moe_intermediate_size"),
    )
    if keys.optional_count("n_shared_experts"):
        keys.refuse("n_shared_experts", problem="is not modelled", accepted="null")
    layers = tuple(
        pre_norm_layer(sliding if kind == SLIDING else full, moe if routes else dense)
        for kind, routes in zip(kinds, _routing(keys, count), strict=True)
    )
    facts = decoder(keys, layers=layers, tied=False)
    # Its predictors have a windowed layer with a dense MLP (arXiv 2601.02780, section 2.3).
    return multi_token_prediction(keys, facts, pre_norm_layer(sliding, dense))


def _mixers(keys: Keys) -> tuple[Attention, Attention]:
    """The attention that sees all, and the windowed one with sinks."""
    full = replace(
        grouped_query_attention(
            keys,
            kv_required=True,
            head_dim_default=HEAD_DIM,
            qkv_bias=keys.flag("attention_bias", default=False),
        ),
        value_head_dim=keys.count("v_head_dim", default=VALUE_HEAD_DIM),
        rope_fraction=partial_rotary(keys, default=ROTARY_SHARE),
    )
    window = keys.optional_count("sliding_window_size")
    # The older key counts the positions before a query, the newer one the query as well.
    seen = keys.count("sliding_window", default=WINDOW) if window is None else window + 1
    for name, value in (
        ("swa_num_attention_heads", full.heads),
        ("swa_num_key_value_heads", 2 * full.kv_heads),
        ("swa_head_dim", full.head_dim),
        ("swa_v_head_dim", full.value_width),
    ):
        if keys.count(name, default=value) != value:
            keys.refuse(name, problem="is not modelled", accepted=str(value))
    for name, sinks in (
        ("add_swa_attention_sink_bias", True),
        ("add_full_attention_sink_bias", False),
    ):
        if keys.flag(name, default=sinks) is not sinks:
            keys.refuse(name, problem="is not modelled", accepted=str(sinks).lower())
    kv_heads = 2 * full.kv_heads
    if full.heads % kv_heads:
        keys.fail(
            "num_key_value_heads",
            full.kv_heads,
            problem=f"doubled does not divide the {full.heads} attention heads",
            accepted=f"half of a divisor of {full.heads}",
        )
    return full, replace(full, kv_heads=kv_heads, window=seen, sinks=True)


def _routing(keys: Keys, count: int) -> tuple[bool, ...]:
    kinds = keys.words("mlp_layer_types", length=count)
    if kinds is not None:
        return tuple(kind == "sparse" for kind in kinds)
    older = keys.switches("moe_layer_freq", length=count)
    return older or (False, *(True,) * (count - 1))
