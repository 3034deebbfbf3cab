"""DeepSeek-V3.2 (arXiv 2512.02556) and GLM-5 (arXiv 2602.15763): latent attention, sparse.

An indexer picks the keys that each query sees. From GLM-5.2 on, layers may go without one
and take the pick of the layer before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    decoder,
    gated_mlp,
    layer_count,
    multi_token_prediction,
    pre_norm_layer,
    shared_mixture,
)
from tonnage.arch.families.deepseek import latent_attention
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.mixer import Indexer, LatentAttention
from tonnage.arch.norm import LAYERNORM

OFFSET: Final = 2
"""First layers that have an indexer in any case, in a file that does not say."""


def read_deepseek_v32(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``deepseek_v32``: every layer has an indexer."""
    return _read(keys, (True,) * layer_count(keys))


def read_glm_moe_dsa(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``glm_moe_dsa``."""
    return _read(keys, _indexing_layers(keys, layer_count(keys)))


def _read(keys: Keys, indexing: tuple[bool, ...]) -> Architecture:
    attention = _attention(keys)
    shares = replace(attention, indexer=None)
    moe, dense = shared_mixture(keys), gated_mlp(keys)
    layers = tuple(
        pre_norm_layer(attention if picks else shares, moe if routes else dense)
        for picks, routes in zip(indexing, _routing(keys, len(indexing)), strict=True)
    )
    facts = decoder(keys, layers=layers, tied=False)
    return multi_token_prediction(keys, facts, pre_norm_layer(attention, moe))


def _attention(keys: Keys) -> LatentAttention:
    base = latent_attention(keys)
    if base.query_rank is None:
        keys.fail(
            "q_lora_rank",
            None,
            problem="leaves the indexer without its input",
            accepted="a positive whole number",
        )
    indexer = Indexer(
        heads=keys.count("index_n_heads"),
        head_dim=keys.count("index_head_dim"),
        query_rank=base.query_rank,
        query_norm=None,
        key_norm=LAYERNORM,
        head_weights=True,
    )
    return replace(base, top_k=keys.count("index_topk"), indexer=indexer)


def _routing(keys: Keys, count: int) -> tuple[bool, ...]:
    """``mlp_layer_types``, or all but the first ``first_k_dense_replace``."""
    kinds = keys.words("mlp_layer_types", length=count)
    if kinds is not None:
        return tuple(kind == "sparse" for kind in kinds)
    first = keys.count("first_k_dense_replace", least=0, most=DEEPEST)
    return tuple(i >= first for i in range(count))


def _indexing_layers(keys: Keys, count: int) -> tuple[bool, ...]:
    """Which layers have an indexer of their own; the first must."""
    kinds = keys.words("indexer_types", length=count)
    if kinds is None and keys.values.get("index_topk_pattern") is not None:
        keys.refuse("index_topk_pattern", problem="is not modelled", accepted="indexer_types")
    if kinds is None:
        every = keys.count("index_topk_freq", default=1, least=0, most=DEEPEST) or 1
        offset = keys.count("index_skip_topk_offset", default=OFFSET, least=0, most=DEEPEST)
        return tuple(max(i - offset + 1, 0) % every == 0 for i in range(count))
    if not {*kinds} <= {"full", "shared"} or kinds[0] != "full":
        keys.refuse("indexer_types", problem="is not modelled", accepted="full first, then shared")
    return tuple(kind == "full" for kind in kinds)
