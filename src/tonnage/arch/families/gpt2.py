"""GPT-2 and GPT-3: learnt positions, LayerNorm, biases everywhere, GELU, tied head."""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM

DROPOUT: Final = 0.1
"""Every dropout of a file that does not say, as GPT2Config has it."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gpt2``."""
    if keys.flag("add_cross_attention", default=False):
        keys.refuse("add_cross_attention", problem="is not modelled", accepted="false")
    hidden = keys.count("n_embd", "hidden_size")
    positions = keys.count("n_positions", "max_position_embeddings")
    return Architecture(
        name="",
        family="",
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        layers=(_layer(keys, hidden),) * layer_count(keys, "n_layer", "num_hidden_layers"),
        final_norm=LAYERNORM,
        tied_embeddings=keys.flag("tie_word_embeddings", default=True),
        max_positions=positions,
        learned_positions=positions,
        embedding_dropout=keys.fraction("embd_pdrop", default=DROPOUT),
    )


def _layer(keys: Keys, hidden: int) -> Layer:
    heads = keys.count("n_head", "num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=hidden, heads=heads, key="n_embd"),
            qkv_bias=True,
            output_bias=True,
            rope=False,
            one_projection=True,
            softmax_fp32=False,
            dropout=keys.fraction("attn_pdrop", default=DROPOUT),
        ),
        mlp=MLP(
            intermediate=keys.optional_count("n_inner") or 4 * hidden,  # absent and null: 4 h
            gated=False,
            activation=activation(keys, "activation_function", default="gelu_new"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        dropout=keys.fraction("resid_pdrop", default=DROPOUT),
    )
