"""DeepSeek-V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437): latent attention, shared experts."""

from __future__ import annotations

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    decoder,
    gated_mlp,
    layer_count,
    multi_token_prediction,
    shared_mixture,
)
from tonnage.arch.feed_forward import MLP, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import LatentAttention
from tonnage.arch.norm import RMSNORM


def read_deepseek_v2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``deepseek_v2``."""
    return _read(keys, mlp_bias=keys.flag("mlp_bias", default=False))


def read_deepseek_v3(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``deepseek_v3`` or ``kimi_k2``."""
    facts = _read(keys, mlp_bias=False)
    return multi_token_prediction(keys, facts, facts.layers[-1])


def _read(keys: Keys, *, mlp_bias: bool) -> Architecture:
    """Layers from ``first_k_dense_replace`` on route, every ``moe_layer_freq``-th of them."""
    count = layer_count(keys)
    first = keys.count("first_k_dense_replace", least=0, most=DEEPEST)
    every = keys.count("moe_layer_freq", default=1, most=DEEPEST)
    attention = latent_attention(keys)
    moe = _layer(attention, shared_mixture(keys, mlp_bias=mlp_bias))
    dense = _layer(attention, gated_mlp(keys, bias=mlp_bias))
    layers = tuple(moe if i >= first and i % every == 0 else dense for i in range(count))
    return decoder(keys, layers=layers, tied=False)


def _layer(attention: LatentAttention, mlp: MLP | MoE) -> Layer:
    return Layer(mixer=attention, mlp=mlp, mixer_norm=RMSNORM, mlp_norm=RMSNORM)


def latent_attention(keys: Keys) -> LatentAttention:
    """Latent attention under DeepSeek's names."""
    heads = keys.count("num_attention_heads")
    if (keys.optional_count("num_key_value_heads") or heads) != heads:
        keys.fail(
            "num_key_value_heads",
            keys.values["num_key_value_heads"],
            problem="groups queries, which latent attention does not",
            accepted=f"{heads}, the number of attention heads",
        )
    keys.require("q_lora_rank")  # null projects queries directly, as in V2-Lite
    return LatentAttention(
        heads=heads,
        query_rank=keys.optional_count("q_lora_rank"),
        kv_rank=keys.count("kv_lora_rank"),
        nope_head_dim=keys.count("qk_nope_head_dim"),
        rope_head_dim=keys.count("qk_rope_head_dim"),
        value_head_dim=keys.count("v_head_dim"),
        bias=keys.flag("attention_bias", default=False),
        dropout=keys.fraction("attention_dropout", default=0.0),
    )
