"""Gemma 3 with eyes (arXiv 2503.19786): a SigLIP tower, a projector and the text decoder."""

from __future__ import annotations

from dataclasses import replace

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, even_head_dim, layer_count
from tonnage.arch.families.gemma import read_gemma3_text
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM
from tonnage.arch.vision import VisionTower


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma3``."""
    text = read_gemma3_text(_part(keys, "text_config", "gemma3_text"))
    vision = _tower(_part(keys, "vision_config", "siglip_vision_model"), decoder=text.hidden)
    tied = keys.flag("tie_word_embeddings", default=True)  # the outer key rules, as in the class
    return replace(text, tied_embeddings=tied, vision=vision)


def _part(keys: Keys, name: str, family: str) -> Keys:
    part = keys.nested(name)
    given = part.word("model_type", default=family)
    if given != family:
        part.refuse("model_type", problem="is not modelled inside gemma3", accepted=family)
    return part


def _tower(keys: Keys, *, decoder: int) -> VisionTower:
    if keys.flag("vision_use_head", default=True):
        keys.refuse(
            "vision_use_head",
            problem="(a pooling head, which an absent key means too) is not modelled",
            accepted="false",
        )
    hidden = keys.count("hidden_size")
    patch = keys.count("patch_size")
    side = keys.count("image_size")
    if side % patch:
        keys.fail(
            "image_size",
            side,
            problem=f"is not a whole number of patches of {patch}",
            accepted=f"a multiple of {patch}",
        )
    return VisionTower(
        hidden=hidden,
        layers=(_layer(keys, hidden),) * layer_count(keys),
        patch_size=patch,
        positions=(side // patch) ** 2,
        channels=keys.count("num_channels", default=3),
        # The projection's weight, and the RMSNorm of what enters it.
        projector=((hidden, decoder), (hidden,)),
    )


def _layer(keys: Keys, hidden: int) -> Layer:
    heads = keys.count("num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=hidden, heads=heads),
            qkv_bias=True,
            output_bias=True,
            rope=False,
            causal=False,
            dropout=keys.fraction("attention_dropout", default=0.0),
        ),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="gelu_pytorch_tanh"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
    )
