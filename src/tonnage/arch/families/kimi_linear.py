"""Kimi Linear (arXiv 2510.26692): three layers of Kimi Delta Attention to one of latent attention.

Files on the hub describe the linear layers in ``linear_attn_config``, which counts layers
from 1; transformers writes the same as ``layer_types`` and ``linear_`` keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    decoder,
    gated_mlp,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, mixed_layers, refuse_tied
from tonnage.arch.feed_forward import FeedForward, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Mixer
from tonnage.arch.mixer import LatentAttention
from tonnage.arch.recurrent import GatedDelta

NESTED: Final = "linear_attn_config"


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``kimi_linear``."""
    refuse_tied(keys)
    _refuse_later_parts(keys)
    count = layer_count(keys)
    mlps: dict[str, FeedForward] = {"dense": gated_mlp(keys), "sparse": _mixture(keys)}
    mixers: dict[str, Mixer] = {FULL: _latent(keys), LINEAR: _delta(keys)}
    by_mlp = {
        name: mixed_layers(
            keys,
            {kind: pre_norm_layer(mixer, mlp) for kind, mixer in mixers.items()},
            default=_kinds(keys, count),
        )
        for name, mlp in mlps.items()
    }
    layers = tuple(by_mlp[name][i] for i, name in enumerate(_mlp_kinds(keys, count)))
    context = keys.optional_count("model_max_length")
    return decoder(keys, layers=layers, tied=False, positions_default=context)


def _refuse_later_parts(keys: Keys) -> None:
    """Refuse what Kimi K3 adds under the same family's name."""
    for name in ("attn_res_block_size", "routed_expert_hidden_size"):
        if keys.values.get(name) is not None:
            keys.refuse(name, problem="is not modelled here", accepted="no such key")
    if keys.flag("mla_use_output_gate", default=False):
        keys.refuse("mla_use_output_gate", problem="is not modelled here", accepted="false")
    nested = keys.nested(NESTED) if keys.has(NESTED) else keys
    if nested.flag("use_full_rank_gate", default=False):
        nested.refuse("use_full_rank_gate", problem="is not modelled here", accepted="false")


def _kinds(keys: Keys, count: int) -> tuple[str, ...]:
    """The mixer of each layer of a config without ``layer_types``."""
    if keys.values.get("layer_types") is not None:
        return (FULL,) * count
    nested = keys.nested(NESTED)
    full = {i - 1 for i in nested.indices("full_attn_layers", below=count + 1)}
    linear = {i - 1 for i in nested.indices("kda_layers", below=count + 1)}
    if full & linear or full | linear != {*range(count)}:
        nested.fail(
            "kda_layers",
            f"{len(linear)} layers",
            problem=f"and full_attn_layers do not share out the {count} layers",
            accepted="each layer, counted from 1, in one of the two",
        )
    return tuple(FULL if i in full else LINEAR for i in range(count))


def _mlp_kinds(keys: Keys, count: int) -> tuple[str, ...]:
    """``dense`` or ``sparse`` for each layer; without a list, the first few are dense."""
    given = keys.words("mlp_layer_types", length=count)
    if given is None:
        first = keys.count("first_k_dense_replace", least=0, most=DEEPEST)
        return tuple("dense" if i < first else "sparse" for i in range(count))
    if not {*given} <= {"dense", "sparse"}:
        keys.refuse("mlp_layer_types", problem="is not modelled", accepted="dense, sparse")
    return given


def _delta(keys: Keys) -> GatedDelta:
    if keys.has(NESTED):
        nested = keys.nested(NESTED)
        heads, width = nested.count("num_heads"), nested.count("head_dim")
        taps = nested.count("short_conv_kernel_size")
    else:
        heads, width = keys.count("linear_num_heads"), keys.count("linear_head_dim")
        taps = keys.count("linear_conv_kernel_dim")
    return GatedDelta(
        key_heads=heads,
        value_heads=heads,
        key_head_dim=width,
        value_head_dim=width,
        conv_kernel=taps,
        decay="channel",
        gate_rank=width,
    )


def _latent(keys: Keys) -> LatentAttention:
    keys.require("q_lora_rank")  # null projects queries directly
    return LatentAttention(
        heads=keys.count("num_attention_heads"),
        query_rank=keys.optional_count("q_lora_rank"),
        kv_rank=keys.count("kv_lora_rank"),
        nope_head_dim=keys.count("qk_nope_head_dim"),
        rope_head_dim=keys.count("qk_rope_head_dim"),
        value_head_dim=keys.count("v_head_dim"),
        bias=keys.flag("attention_bias", default=False),
        dropout=keys.fraction("attention_dropout", default=0.0),
    )


def _mixture(keys: Keys) -> MoE:
    """Shared experts are one MLP as wide as all of them."""
    if keys.count("moe_layer_freq", default=1) != 1:
        keys.refuse("moe_layer_freq", problem="is not modelled here", accepted="1")
    expert = gated_mlp(keys, width="moe_intermediate_size")
    shared = keys.count("num_shared_experts", "n_shared_experts", least=0)
    return mixture(
        keys,
        experts=keys.count("num_experts", "num_local_experts"),
        expert=expert,
        shared=replace(expert, intermediate=shared * expert.intermediate) if shared else None,
    )
