"""MiniMax-M2 (MiniMax, 2025) and M3 (2026): grouped queries, experts; in M3 block-sparse."""

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
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.towers import biased, encoder_layer, part
from tonnage.arch.feed_forward import MLP, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.mixer import Attention, Indexer
from tonnage.arch.norm import LAYERNORM, RMSNORM
from tonnage.arch.vision import VisionTower

HEAD_DIM: Final = 128
SPARSE: Final = "minimax_m3_sparse"

# What a file of M3 leaves out (MiniMaxM3VLTextConfig).
INDEX_HEADS: Final = 4
INDEX_HEAD_DIM: Final = 128
INDEX_BLOCK: Final = 128
INDEX_BLOCKS: Final = 16


def read_m2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``minimax_m2``."""
    attention = grouped_query_attention(keys, kv_required=True, head_dim_default=HEAD_DIM)
    attention = replace(attention, qk_norm=RMSNORM, qk_norm_over="projection")
    experts = keys.count("num_local_experts", "num_experts")
    layer = pre_norm_layer(attention, mixture(keys, experts=experts, expert=gated_mlp(keys)))
    facts = decoder(keys, layers=(layer,) * layer_count(keys), tied=False)
    if not keys.flag("use_mtp", default=False):
        return facts
    depth = keys.count("num_mtp_modules", default=0, least=0, most=DEEPEST)
    if keys.count("mtp_transformer_layers", default=1) != 1:
        keys.refuse("mtp_transformer_layers", problem="is not modelled", accepted="1")
    return replace(facts, mtp_layers=depth, mtp=layer if depth else None)


def read_m3(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``minimax_m3_vl``."""
    text = read_m3_text(part(keys, "text_config", "minimax_m3_vl_text", "minimax_m3"))
    tower = _tower(part(keys, "vision_config", "minimax_m3_vl_vision"), keys, text.hidden)
    tied = keys.flag("tie_word_embeddings", default=False) or text.tied_embeddings
    return replace(text, tied_embeddings=tied, vision=tower)


def read_m3_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``minimax_m3`` or ``minimax_m3_vl_text``."""
    count = layer_count(keys)
    attention = replace(
        grouped_query_attention(keys, kv_required=True, head_dim_default=HEAD_DIM),
        qk_norm=RMSNORM,
    )
    if keys.flag("attention_output_gate", default=False):
        keys.refuse("attention_output_gate", problem="is not modelled", accepted="false")
    sparse = _sparse(keys, attention)
    moe, dense = _mixture(keys), _mlp(keys, "dense_intermediate_size")
    layers = tuple(
        pre_norm_layer(sparse if picks else attention, moe if routes else dense)
        for picks, routes in zip(
            _picking_layers(keys, count), _routing_layers(keys, count), strict=True
        )
    )
    facts = decoder(keys, layers=layers, tied=False)
    depth = keys.count("num_nextn_predict_layers", default=0, least=0, most=DEEPEST)
    return replace(facts, mtp_layers=depth, mtp=layers[-1] if depth else None)


def _mlp(keys: Keys, width: str) -> MLP:
    """The class has SwiGLU, clamped, whatever ``hidden_act`` says (``swigluoai``)."""
    return MLP(intermediate=keys.count(width), gated=True, activation="silu")


def _mixture(keys: Keys) -> MoE:
    experts = keys.count("num_local_experts", "num_experts")
    shared = _mlp(keys, "shared_intermediate_size")
    return mixture(keys, experts=experts, expert=_mlp(keys, "intermediate_size"), shared=shared)


def _picking_layers(keys: Keys, count: int) -> tuple[bool, ...]:
    """Which layers have an indexer: ``layer_types``, or the older ``sparse_attention_freq``."""
    kinds = keys.words("layer_types", length=count)
    if kinds is not None:
        if not {*kinds} <= {FULL, SPARSE}:
            keys.refuse("layer_types", problem="is not modelled", accepted=f"{FULL}, {SPARSE}")
        return tuple(kind == SPARSE for kind in kinds)
    if keys.values.get("sparse_attention_config") is None:
        return (False,) * count
    sparse = keys.nested("sparse_attention_config")
    return sparse.switches("sparse_attention_freq", length=count) or (False,) * count


def _routing_layers(keys: Keys, count: int) -> tuple[bool, ...]:
    kinds = keys.words("mlp_layer_types", length=count)
    if kinds is not None:
        return tuple(kind == "sparse" for kind in kinds)
    return keys.switches("moe_layer_freq", length=count) or (True,) * count


def _sparse(keys: Keys, attention: Attention) -> Attention:
    """Each query sees the best blocks of keys; one indexer head serves a group of heads."""
    older = keys
    if keys.values.get("sparse_attention_config") is not None:
        older = keys.nested("sparse_attention_config")

    def number(name: str, old: str, default: int) -> int:
        source = older if older.has(old) else keys
        return source.count(old if older.has(old) else name, default=default)

    block = number("index_block_size", "sparse_block_size", INDEX_BLOCK)
    indexer = Indexer(
        heads=number("index_n_heads", "sparse_num_index_heads", INDEX_HEADS),
        head_dim=number("index_head_dim", "sparse_index_dim", INDEX_HEAD_DIM),
        query_rank=None,
        query_norm=RMSNORM,
        key_norm=RMSNORM,
        head_weights=False,
    )
    blocks = number("index_topk_blocks", "sparse_topk_blocks", INDEX_BLOCKS)
    return replace(attention, top_k=blocks * block, indexer=indexer)


def _tower(keys: Keys, outer: Keys, decoder: int) -> VisionTower:
    hidden = keys.count("hidden_size")
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_attention_heads"),
        intermediate=keys.count("intermediate_size"),
        rope=True,
    )
    wide = outer.count("projector_hidden_size")
    square = decoder * keys.count("spatial_merge_size", default=2) ** 2
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys),
        patch_size=keys.count("patch_size"),
        frames=keys.count("temporal_patch_size", default=2),
        channels=keys.count("num_channels", default=3),
        patch_bias=False,
        positions=0,
        first_norm=LAYERNORM,
        final_norm=None,
        projector=biased((hidden, wide), (wide, decoder), (square, wide), (wide, decoder)),
    )
