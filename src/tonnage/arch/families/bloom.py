"""BLOOM (arXiv 2211.05100): ALiBi, a norm after the embedding, biases everywhere."""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM

TRAINED_LENGTH: Final = 2048
"""Tokens that it was trained on at a time; ALiBi sets no limit and the class names none."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``bloom``."""
    if keys.flag("apply_residual_connection_post_layernorm", default=False):
        keys.refuse(
            "apply_residual_connection_post_layernorm", problem="is not modelled", accepted="false"
        )
    hidden = keys.count("n_embed", "hidden_size")
    return Architecture(
        name="",
        family="",
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        layers=(_layer(keys, hidden),) * layer_count(keys, "n_layer", "num_hidden_layers"),
        final_norm=LAYERNORM,
        tied_embeddings=keys.flag("tie_word_embeddings", default=True),
        max_positions=keys.count("seq_length", default=TRAINED_LENGTH),
        embedding_norm=LAYERNORM,
    )


def _layer(keys: Keys, hidden: int) -> Layer:
    heads = keys.count("n_head", "num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=hidden, heads=heads),
            qkv_bias=True,
            output_bias=True,
            rope=False,
            dropout=keys.fraction("attention_dropout", default=0.0),
        ),
        # The class writes its own tanh form of GELU and a width of 4 h.
        mlp=MLP(intermediate=4 * hidden, gated=False, activation="gelu_pytorch_tanh", bias=True),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        dropout=keys.fraction("hidden_dropout", default=0.0),
    )
