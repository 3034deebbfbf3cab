"""Llama 4 (Meta, 2025): chunked attention, layers without position, interleaved experts.

Layers that turn queries and keys see the chunk that they are in and normalise the heads
without weights; every fourth layer has no position and sees all.
"""

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
    rotary_layers,
)
from tonnage.arch.families.towers import encoder_layer, part, patches_per_side
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM, Norm
from tonnage.arch.vision import VisionTower

BARE: Final = Norm(kind="rmsnorm", weight=False)
CHUNK: Final = 8192
CHUNKED: Final = "chunked_attention"
PIXEL_SHUFFLE: Final = 0.5


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``llama4``; without a tower it is the text alone."""
    text = read_text(part(keys, "text_config", "llama4_text"))  # its own key ties the head
    if keys.values.get("vision_config") is None:
        return text
    tower = _tower(part(keys, "vision_config", "llama4_vision_model"), decoder=text.hidden)
    return replace(text, vision=tower)


def read_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``llama4_text``."""
    bias = keys.flag("attention_bias", default=False)
    attention = grouped_query_attention(keys, kv_required=True, qkv_bias=bias, output_bias=bias)
    count = layer_count(keys)
    turned = rotary_layers(keys, count)
    mixers = _mixers(keys, attention, turned)
    expert = gated_mlp(keys)
    experts = keys.count("num_local_experts")
    sparse = mixture(keys, experts=experts, expert=expert, shared=expert)
    routes = _routing(keys, count)
    dense = sparse if all(routes) else gated_mlp(keys, width="intermediate_size_mlp")
    layers = tuple(
        pre_norm_layer(mixer, sparse if route else dense)
        for mixer, route in zip(mixers, routes, strict=True)
    )
    return decoder(keys, layers=layers, tied=False)


def _mixers(keys: Keys, attention: Attention, turned: tuple[bool, ...]) -> list[Attention]:
    chunk = keys.optional_count("attention_chunk_size", default=CHUNK)
    pattern = tuple(CHUNKED if rope and chunk is not None else FULL for rope in turned)
    kinds = keys.words("layer_types", length=len(turned)) or pattern
    if not {*kinds} <= {FULL, CHUNKED}:
        keys.refuse("layer_types", problem="is not modelled", accepted=f"{FULL}, {CHUNKED}")
    if chunk is None and CHUNKED in kinds:
        keys.fail(
            "attention_chunk_size", None, problem="is missing", accepted="a positive whole number"
        )
    normalised = keys.flag("use_qk_norm", default=True)
    return [
        replace(
            attention,
            rope=rope,
            qk_norm=BARE if rope and normalised else None,
            chunk=chunk if kind == CHUNKED else None,
        )
        for rope, kind in zip(turned, kinds, strict=True)
    ]


def _routing(keys: Keys, count: int) -> list[bool]:
    """The layers in ``moe_layers``, or every ``interleave_moe_layer_step``-th."""
    if keys.values.get("moe_layers") is not None:
        chosen = keys.indices("moe_layers", below=count)
        return [i in chosen for i in range(count)]
    step = keys.count("interleave_moe_layer_step", default=1, most=DEEPEST)
    return [(i + 1) % step == 0 for i in range(count)]


def _tower(keys: Keys, *, decoder: int) -> VisionTower:
    """The tower, its pixel shuffle with an MLP, and the projection into the decoder."""
    hidden = keys.count("hidden_size")
    patch = keys.count("patch_size")
    side = patches_per_side(keys, side=keys.count("image_size"), patch=patch)
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_attention_heads"),
        intermediate=keys.count("intermediate_size"),
        rope=True,
    )
    if keys.fraction("pixel_shuffle_ratio", default=PIXEL_SHUFFLE) != PIXEL_SHUFFLE:
        keys.refuse("pixel_shuffle_ratio", problem="is not modelled", accepted="0.5")
    wide = keys.count("projector_output_dim")
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys),
        patch_size=patch,
        channels=keys.count("num_channels", default=3),
        patch_bias=False,
        positions=side**2 + 1,
        class_token=True,
        first_norm=LAYERNORM,
        final_norm=LAYERNORM,
        projector=(
            (keys.count("intermediate_size"), keys.count("projector_input_dim")),
            (wide, wide),
            (keys.count("vision_output_dim"), decoder),
        ),
    )
