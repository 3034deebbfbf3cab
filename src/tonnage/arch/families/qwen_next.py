"""Qwen3-Next and Qwen3.5: three layers of Gated DeltaNet to one of gated attention.

The attention turns a quarter of each head, normalises queries and keys, and scales its
output by a sigmoid gate. Norms are centred on zero, which changes no count.
"""

from __future__ import annotations

from collections.abc import Callable
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
    partial_rotary,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, every_nth_full, gated_delta, mixed_layers
from tonnage.arch.families.qwen_vl import qwen3_tower
from tonnage.arch.families.towers import part
from tonnage.arch.feed_forward import FeedForward, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import CENTRED_RMSNORM

HEAD_DIM: Final = 256
INTERVAL: Final = 4
ROPE_FRACTION: Final = 0.25
"""What the classes fix for files that do not say."""

DEEPSTACK: Final = "deepstack_visual_indexes"
"""A key that Qwen3.5 has from Qwen3-VL, whose decoder takes in layers inside the tower."""


def read_qwen3_next(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_next``."""
    count = layer_count(keys)
    step = keys.count("decoder_sparse_step", default=1)
    dense_only = keys.indices("mlp_only_layers", below=count)
    routes = [(i + 1) % step == 0 and i not in dense_only for i in range(count)]
    sparse = _layers(keys, _mixture(keys)) if any(routes) else ()
    # A model whose layers all route needs no width for dense ones.
    dense = sparse if all(routes) else _layers(keys, gated_mlp(keys))
    layers = tuple((sparse if route else dense)[i] for i, route in enumerate(routes))
    return decoder(keys, layers=layers, tied=False, final_norm=CENTRED_RMSNORM)


def read_qwen3_5(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_5``: the dense model with its image encoder."""
    return _with_eyes(keys, "qwen3_5", read_qwen3_5_text)


def read_qwen3_5_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_5_moe``."""
    return _with_eyes(keys, "qwen3_5_moe", read_qwen3_5_moe_text)


def read_qwen3_5_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_5_text``, alone or nested in ``qwen3_5``."""
    return _text(keys, gated_mlp(keys))


def read_qwen3_5_moe_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_5_moe_text``, alone or nested."""
    return _text(keys, _mixture(keys))


def _text(keys: Keys, mlp: FeedForward) -> Architecture:
    """The decoder; what predicts further tokens has full attention."""
    facts = decoder(keys, layers=_layers(keys, mlp), tied=False, final_norm=CENTRED_RMSNORM)
    mtp = keys.count("mtp_num_hidden_layers", default=0, least=0, most=DEEPEST)
    layer = pre_norm_layer(_attention(keys), mlp, norm=CENTRED_RMSNORM)
    return replace(facts, mtp_layers=mtp, mtp=layer if mtp else None)


def _with_eyes(keys: Keys, family: str, read_text: Callable[[Keys], Architecture]) -> Architecture:
    """The outer key rules tied embeddings, as in the class."""
    text = read_text(part(keys, "text_config", f"{family}_text"))
    vision = part(keys, "vision_config", f"{family}_vision", family)
    if vision.values.get(DEEPSTACK):
        vision.refuse(DEEPSTACK, problem="is not modelled here", accepted="an empty list")
    tower = qwen3_tower(replace(vision, values={**vision.values, DEEPSTACK: []}))
    tied = keys.flag("tie_word_embeddings", default=False)
    return replace(text, tied_embeddings=tied, vision=tower)


def _layers(keys: Keys, mlp: FeedForward) -> tuple[Layer, ...]:
    mixers = ((FULL, _attention(keys)), (LINEAR, gated_delta(keys)))
    parts = {kind: pre_norm_layer(mixer, mlp, norm=CENTRED_RMSNORM) for kind, mixer in mixers}
    every = keys.count("full_attention_interval", default=INTERVAL, most=DEEPEST)
    return mixed_layers(keys, parts, default=every_nth_full(layer_count(keys), every))


def _attention(keys: Keys) -> Attention:
    if not keys.flag("attn_output_gate", default=True):
        keys.refuse("attn_output_gate", problem="is not modelled here", accepted="true")
    bias = keys.flag("attention_bias", default=False)
    attention = grouped_query_attention(
        keys,
        kv_required=True,
        head_dim_default=HEAD_DIM,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=CENTRED_RMSNORM,
    )
    fraction = partial_rotary(keys, default=ROPE_FRACTION)
    return replace(attention, gate="element", rope_fraction=fraction)


def _mixture(keys: Keys) -> MoE:
    moe = mixture(
        keys,
        experts=keys.count("num_experts", "num_local_experts"),
        expert=gated_mlp(keys, width="moe_intermediate_size"),
        shared=gated_mlp(keys, width="shared_expert_intermediate_size"),
    )
    return replace(moe, shared_gate=True)
