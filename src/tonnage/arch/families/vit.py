"""ViT (arXiv 2010.11929): an encoder of image patches, and a classifier on its class token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, even_head_dim, layer_count
from tonnage.arch.families.towers import patches_per_side
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys, printable
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM
from tonnage.arch.vision import Patches

LABELS: Final = 2
"""Labels of a file that names none."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``vit``, for classification."""
    keys.only_classes("ViTForImageClassification")
    patch = keys.count("patch_size")
    side = patches_per_side(keys, side=keys.count("image_size"), patch=patch)
    return Architecture(
        name="",
        family="",
        hidden=keys.count("hidden_size"),
        vocab=_labels(keys),
        layers=(_layer(keys),) * layer_count(keys),
        final_norm=LAYERNORM,
        tied_embeddings=False,
        max_positions=side**2 + 1,
        learned_positions=side**2 + 1,
        embedding_dropout=keys.fraction("hidden_dropout_prob", default=0.0),
        head_bias=True,
        patches=Patches(size=patch, channels=keys.count("num_channels", default=3)),
    )


def _labels(keys: Keys) -> int:
    """The labels that ``id2label`` lists, or as many as ``num_labels`` says."""
    listed = keys.values.get("id2label")
    if listed is None:
        return keys.count("num_labels", default=LABELS)
    if not isinstance(listed, Mapping) or not listed:
        keys.fail("id2label", printable(listed), problem="lists no labels", accepted="an object")
    return len(listed)


def _layer(keys: Keys) -> Layer:
    heads = keys.count("num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=keys.count("hidden_size"), heads=heads),
            qkv_bias=keys.flag("qkv_bias", default=True),
            output_bias=True,
            rope=False,
            causal=False,
            dropout=keys.fraction("attention_probs_dropout_prob", default=0.0),
        ),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="gelu"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        dropout=keys.fraction("hidden_dropout_prob", default=0.0),
    )
