"""Kimi K2 (arXiv 2507.20534), which is DeepSeek-V3's class, and K2.5 with a MoonViT tower."""

from __future__ import annotations

from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import layer_count
from tonnage.arch.families.deepseek import read_deepseek_v3
from tonnage.arch.families.towers import biased, encoder_layer, part
from tonnage.arch.keys import Keys
from tonnage.arch.vision import VisionTower


def read_k25(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``kimi_k25``."""
    text = read_deepseek_v3(part(keys, "text_config", "deepseek_v3", "kimi_k2"))
    tower = _tower(part(keys, "vision_config", "kimi_k25_vision", "kimi_k25"), keys, text.hidden)
    tied = keys.flag("tie_word_embeddings", default=True)  # the outer key rules, as in the class
    return replace(text, tied_embeddings=tied, vision=tower)


def _tower(keys: Keys, outer: Keys, decoder: int) -> VisionTower:
    """MoonViT; the files on the hub name its widths with ``vt_`` in front."""
    hidden = keys.count("hidden_size", "vt_hidden_size")
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("num_attention_heads", "vt_num_attention_heads"),
        intermediate=keys.count("intermediate_size", "vt_intermediate_size"),
        act_default="gelu_pytorch_tanh",
        rope=True,
    )
    height = keys.count("pos_emb_height", "init_pos_emb_height")
    width = keys.count("pos_emb_width", "init_pos_emb_width")
    down, across = keys.counts("merge_kernel_size", length=2)
    square = hidden * down * across
    if (outer.optional_count("projection_hidden_size") or hidden) != hidden:
        outer.refuse(
            "projection_hidden_size", problem="is not modelled", accepted=f"{hidden}, the tower's"
        )
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys, "num_hidden_layers", "vt_num_hidden_layers"),
        patch_size=keys.count("patch_size"),
        positions=height * width,
        projector=((2 * hidden,), *biased((square, square), (square, decoder))),
    )
