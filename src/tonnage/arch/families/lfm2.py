"""LFM2 (arXiv 2511.23404): gated short convolutions, and attention in a few layers."""

from __future__ import annotations

from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    decoder,
    grouped_query_attention,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import mixed_layers
from tonnage.arch.feed_forward import MLP, FeedForward
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.norm import RMSNORM
from tonnage.arch.recurrent import ShortConvolution

CONVOLUTION = "conv"


def read_lfm2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``lfm2``."""
    count = layer_count(keys)
    full = keys.indices("full_attn_idxs", below=count)
    # Neither list is there: the class makes every layer attend.
    attends = full if keys.values.get("full_attn_idxs") is not None else frozenset(range(count))
    kinds = tuple(FULL if i in attends else CONVOLUTION for i in range(count))
    return _decoder(keys, _layers(keys, _swiglu(_adjusted_width(keys)), kinds))


def read_lfm2_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``lfm2_moe``: the first few layers are dense."""
    count = layer_count(keys)
    if keys.values.get("layer_types") is None:
        keys.require("layer_types")
    first = keys.count("num_dense_layers", least=0, most=DEEPEST)
    routed = mixture(
        keys,
        experts=keys.count("num_experts", "num_local_experts"),
        expert=_swiglu(keys.count("moe_intermediate_size")),
    )
    dense = _layers(keys, _swiglu(keys.count("intermediate_size")), (FULL,) * count)
    sparse = _layers(keys, routed, (FULL,) * count)
    return _decoder(keys, dense[:first] + sparse[first:])


def _adjusted_width(keys: Keys) -> int:
    """Two thirds of the named width, times a factor, rounded up to a multiple (as Llama 1)."""
    width = keys.count("block_ff_dim" if keys.has("block_ff_dim") else "intermediate_size")
    if not keys.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = int(2 * width / 3)
    factor = keys.values.get("block_ffn_dim_multiplier", 1.0)
    if factor is None:
        return width
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        keys.fail(
            "block_ffn_dim_multiplier",
            factor,
            problem="is not a factor",
            accepted="a number above 0 and below 1000, or null",
        )
    multiple = keys.count("block_multiple_of", default=256)
    return -(-int(factor * width) // multiple) * multiple


def _swiglu(width: int) -> MLP:
    return MLP(intermediate=width, gated=True, activation="silu")


def _layers(keys: Keys, mlp: FeedForward, kinds: tuple[str, ...]) -> tuple[Layer, ...]:
    attention = grouped_query_attention(keys, kv_required=True, qk_norm=RMSNORM)
    convolution = ShortConvolution(
        channels=keys.count("hidden_size"),
        conv_kernel=keys.count("conv_L_cache"),
        bias=keys.flag("conv_bias", default=False),
    )
    parts = {
        FULL: pre_norm_layer(attention, mlp),
        CONVOLUTION: pre_norm_layer(convolution, mlp),
    }
    return mixed_layers(keys, parts, default=kinds)


def _decoder(keys: Keys, layers: tuple[Layer, ...]) -> Architecture:
    """``tie_embedding`` is how the first files call ``tie_word_embeddings``, and rules it."""
    facts = decoder(keys, layers=layers, tied=True)
    return replace(facts, tied_embeddings=keys.flag("tie_embedding", default=facts.tied_embeddings))
