"""Qwen2 (arXiv 2407.10671) and Qwen3 (arXiv 2505.09388), dense and with experts.

Qwen2 has biases on queries, keys and values; Qwen3 has none and normalises each head of
queries and keys instead. Their mixtures differ in the shared expert, which Qwen3 dropped.
"""

from __future__ import annotations

from collections.abc import Callable
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
from tonnage.arch.feed_forward import MoE
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM

QWEN3_HEAD_DIM: Final = 128
"""The head of every Qwen3; its files state it, and its class fixes it for those that do not."""


def read_qwen2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen2``."""
    attention = grouped_query_attention(keys, kv_required=True, qkv_bias=True)
    return _dense(keys, attention)


def read_qwen3(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3``."""
    return _dense(keys, _qwen3_attention(keys, head_dim_default=QWEN3_HEAD_DIM))


def read_qwen2_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen2_moe``."""
    attention = grouped_query_attention(
        keys, kv_required=True, qkv_bias=keys.flag("qkv_bias", default=True)
    )
    return _sparse(keys, attention, _qwen2_mixture)


def read_qwen3_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_moe``."""
    # Unlike the dense class, this one has no fixed head: absent, it is an even share.
    return _sparse(keys, _qwen3_attention(keys, head_dim_default=None), _qwen3_mixture)


def _qwen3_attention(keys: Keys, *, head_dim_default: int | None) -> Attention:
    bias = keys.flag("attention_bias", default=False)
    return grouped_query_attention(
        keys,
        kv_required=True,
        head_dim_default=head_dim_default,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=RMSNORM,
    )


def _dense(keys: Keys, attention: Attention) -> Architecture:
    """Layers from ``max_window_layers`` on slide, where windows are used at all."""
    count = layer_count(keys)
    slides = keys.flag("use_sliding_window", default=False)
    window = keys.optional_count("sliding_window") if slides else None
    first = keys.count("max_window_layers", least=0) if window is not None else count
    kinds = layer_types(keys, default=(SLIDING if i >= first else FULL for i in range(count)))
    layer = pre_norm_layer(attention, gated_mlp(keys))
    return decoder(keys, layers=windowed(keys, layer, kinds, window=window), tied=False)


def _sparse(keys: Keys, attention: Attention, read_moe: Callable[[Keys], MoE]) -> Architecture:
    """Every ``decoder_sparse_step``-th layer routes, save those in ``mlp_only_layers``."""
    if keys.flag("use_sliding_window", default=False):
        keys.refuse(
            "use_sliding_window",
            problem="(which layers slide depends on the version of transformers) is not modelled",
            accepted="false",
        )
    count = layer_count(keys)
    if {*layer_types(keys, default=(FULL,) * count)} != {FULL}:
        keys.refuse("layer_types", problem="slides, which is not modelled here", accepted=FULL)
    step = keys.count("decoder_sparse_step", default=1)
    dense_only = keys.indices("mlp_only_layers", below=count)
    routes = [(i + 1) % step == 0 and i not in dense_only for i in range(count)]
    sparse = pre_norm_layer(attention, read_moe(keys))
    # A model whose layers all route needs no width for dense ones.
    dense = sparse if all(routes) else pre_norm_layer(attention, gated_mlp(keys))
    layers: tuple[Layer, ...] = tuple(sparse if route else dense for route in routes)
    return decoder(keys, layers=layers, tied=False)


def _qwen2_mixture(keys: Keys) -> MoE:
    shared = gated_mlp(keys, width="shared_expert_intermediate_size")
    return replace(_qwen3_mixture(keys), shared=shared, shared_gate=True)


def _qwen3_mixture(keys: Keys) -> MoE:
    expert = gated_mlp(keys, width="moe_intermediate_size")
    return mixture(keys, experts=keys.count("num_experts", "num_local_experts"), expert=expert)
