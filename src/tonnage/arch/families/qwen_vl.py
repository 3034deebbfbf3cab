"""Qwen2-VL, 2.5-VL (arXiv 2409.12191, 2502.13923) and Qwen3-VL (arXiv 2511.21631).

A tower with rotary positions, a merger that joins squares of patches, and the text decoder
of the same generation. Qwen3-VL feeds layers in the middle of the tower to the first
decoder layers as well, through a merger for each (deepstack).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import layer_count
from tonnage.arch.families.qwen import read_qwen2, read_qwen3, read_qwen3_moe
from tonnage.arch.families.towers import biased, encoder_layer, part
from tonnage.arch.keys import Keys
from tonnage.arch.norm import RMSNORM
from tonnage.arch.vision import VisionTower


def read_qwen2_vl(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen2_vl``."""
    tower = _qwen2_tower(part(keys, "vision_config", "qwen2_vl_vision", "qwen2_vl"))
    return _joined(_qwen2_text(keys, "qwen2_vl"), tower)


def read_qwen2_5_vl(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen2_5_vl``."""
    tower = _qwen2_5_tower(part(keys, "vision_config", "qwen2_5_vl_vision", "qwen2_5_vl"))
    return _joined(_qwen2_text(keys, "qwen2_5_vl"), tower)


def read_qwen3_vl(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_vl``."""
    return _qwen3(keys, "qwen3_vl", read_qwen3)


def read_qwen3_vl_moe(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``qwen3_vl_moe``."""
    return _qwen3(keys, "qwen3_vl_moe", read_qwen3_moe)


def _qwen3(keys: Keys, family: str, read_text: Callable[[Keys], Architecture]) -> Architecture:
    text = read_text(part(keys, "text_config", f"{family}_text"))
    # The outer key rules, as in the class.
    text = replace(text, tied_embeddings=keys.flag("tie_word_embeddings", default=False))
    return _joined(text, qwen3_tower(part(keys, "vision_config", f"{family}_vision", family)))


def _qwen2_text(keys: Keys, family: str) -> Architecture:
    """The text's keys stand nested, or beside ``vision_config`` in the files on the hub."""
    if keys.values.get("text_config") is None:
        return read_qwen2(keys)
    inner = part(keys, "text_config", f"{family}_text", family)
    tied = keys.flag("tie_word_embeddings", default=False)
    tied = tied or inner.flag("tie_word_embeddings", default=False)
    return replace(read_qwen2(inner), tied_embeddings=tied)


def _joined(text: Architecture, tower: VisionTower) -> Architecture:
    return replace(text, vision=tower)


def qwen3_tower(keys: Keys, *, deepstack: bool = True) -> VisionTower:
    """The tower of Qwen3-VL and, without deepstack, of Qwen3.5; its positions are a grid."""
    hidden = keys.count("hidden_size")
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_heads"),
        intermediate=keys.count("intermediate_size"),
        act_default="gelu_pytorch_tanh",
        rope=True,
    )
    count = layer_count(keys, "depth")
    square = hidden * keys.count("spatial_merge_size", default=2) ** 2
    merger = biased((square, square), (square, keys.count("out_hidden_size")))
    taps = 0
    if deepstack:
        keys.require("deepstack_visual_indexes")
        taps = len(keys.indices("deepstack_visual_indexes", below=count))
    # The last merger normalises patches before it joins them, the others what they joined.
    projector = (((2 * hidden,), *merger), *(((2 * square,), *merger),) * taps)
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * count,
        patch_size=keys.count("patch_size"),
        frames=keys.count("temporal_patch_size", default=2),
        channels=keys.count("in_channels", default=3),
        positions=keys.count("num_position_embeddings"),
        final_norm=None,
        projector=tuple(shape for shapes in projector for shape in shapes),
    )


def _qwen2_tower(keys: Keys) -> VisionTower:
    hidden = keys.count("embed_dim")
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_heads"),
        intermediate=keys.count("mlp_ratio", default=4) * hidden,
        act_default="quick_gelu",
        rope=True,
    )
    square = hidden * keys.count("spatial_merge_size", default=2) ** 2
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys, "depth"),
        patch_size=keys.count("patch_size"),
        frames=keys.count("temporal_patch_size", default=2),
        channels=keys.count("in_channels", "in_chans", default=3),
        patch_bias=False,
        positions=0,
        final_norm=None,
        projector=((2 * hidden,), *biased((square, square), (square, keys.count("hidden_size")))),
    )


def _qwen2_5_tower(keys: Keys) -> VisionTower:
    hidden = keys.count("hidden_size")
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_heads"),
        intermediate=keys.count("intermediate_size"),
        act_default="silu",
        rope=True,
        gated=True,
        norm=RMSNORM,
    )
    square = hidden * keys.count("spatial_merge_size", default=2) ** 2
    merger = biased((square, square), (square, keys.count("out_hidden_size")))
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys, "depth"),
        patch_size=keys.count("patch_size"),
        frames=keys.count("temporal_patch_size", default=2),
        channels=keys.count("in_channels", "in_chans", default=3),
        patch_bias=False,
        positions=0,
        final_norm=None,
        projector=((hidden,), *merger),
    )
