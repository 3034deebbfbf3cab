"""DeepSeek-V4 (DeepSeek-AI, 2026): compressed attention, hyper-connections, hash routing.

Its layers see a window and, beyond it, compressed blocks: all of them at 128 positions a
block, or those that an indexer picks at 4. The residual is several streams, which each
part reads through one learnt mixture and writes through another. The experts of the first
layers are looked up by token, in a table that does not train; their router still weighs them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    SLIDING,
    decoder,
    layer_count,
    multi_token_prediction,
    shared_mixture,
)
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import CompressedAttention, Indexer
from tonnage.arch.norm import RMSNORM

SPARSE: Final = "compressed_sparse_attention"
HEAVY: Final = "heavily_compressed_attention"
RATIOS: Final = {SPARSE: 4, HEAVY: 128}
KIND_OF_RATIO: Final = {0: SLIDING, **{ratio: kind for kind, ratio in RATIOS.items()}}


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``deepseek_v4`` (or ``deepseek_ref``)."""
    if keys.count("num_key_value_heads", default=1) != 1:
        keys.refuse("num_key_value_heads", problem="is not modelled", accepted="1")
    if keys.flag("mlp_bias", default=False) or keys.flag("attention_bias", default=False):
        keys.refuse("attention_bias", problem="is not modelled", accepted="false")
    if keys.count("n_shared_experts") != 1:
        keys.refuse("n_shared_experts", problem="is not modelled", accepted="1")
    streams = keys.count("hc_mult")
    moe = shared_mixture(keys, router_fp32=False)
    layers = tuple(
        Layer(
            mixer=_attention(keys, kind),
            mlp=moe,
            mixer_norm=RMSNORM,
            mlp_norm=RMSNORM,
            streams=streams,
        )
        for kind in _kinds(keys, layer_count(keys))
    )
    facts = multi_token_prediction(keys, decoder(keys, layers=layers, tied=False), layers[-1])
    # How predictors join several streams is published nowhere that could be checked.
    return replace(facts, streams=streams, mtp=None)


def _kinds(keys: Keys, count: int) -> tuple[str, ...]:
    """``layer_types``, or a ratio for each layer (and for each predictor: these are cut off)."""
    kinds = keys.words("layer_types", length=count)
    if kinds is None:
        ratios = keys.counts("compress_ratios", least=0, length=count)
        if not {*ratios} <= {*KIND_OF_RATIO}:
            keys.refuse("compress_ratios", problem="is not modelled", accepted="0, 4 and 128")
        return tuple(KIND_OF_RATIO[ratio] for ratio in ratios)
    if not {*kinds} <= {SLIDING, SPARSE, HEAVY}:
        accepted = f"{SLIDING}, {SPARSE}, {HEAVY}"
        keys.refuse("layer_types", problem="is not modelled", accepted=accepted)
    return kinds


def _attention(keys: Keys, kind: str) -> CompressedAttention:
    heads, groups = keys.count("num_attention_heads"), keys.count("o_groups")
    if heads % groups:
        keys.fail(
            "o_groups",
            groups,
            problem=f"does not divide the {heads} attention heads",
            accepted=f"a divisor of {heads}",
        )
    base = CompressedAttention(
        heads=heads,
        head_dim=keys.count("head_dim"),
        query_rank=keys.count("q_lora_rank"),
        output_groups=groups,
        output_rank=keys.count("o_lora_rank"),
        window=keys.count("sliding_window"),
        dropout=keys.fraction("attention_dropout", default=0.0),
    )
    if kind == SLIDING:
        return base
    if kind == HEAVY:
        return replace(base, ratio=_ratio(keys, kind))
    indexer = Indexer(
        heads=keys.count("index_n_heads"),
        head_dim=keys.count("index_head_dim"),
        query_rank=base.query_rank,
        query_norm=None,
        key_norm=RMSNORM,
        head_weights=True,
    )
    return replace(
        base,
        ratio=_ratio(keys, kind),
        overlapping=True,
        top_k=keys.count("index_topk"),
        indexer=indexer,
    )


def _ratio(keys: Keys, kind: str) -> int:
    if keys.values.get("compress_rates") is None:
        return RATIOS[kind]
    return keys.nested("compress_rates").count(kind, default=RATIOS[kind])
