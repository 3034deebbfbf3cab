"""GPT-J (EleutherAI, 2021): parallel residual behind one norm, partial rotary, a biased head."""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM

ROTARY_DIM: Final = 64
"""Width of a head that the rotary embedding turns in a file that does not say."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gptj``."""
    hidden = keys.count("n_embd", "hidden_size")
    return Architecture(
        name="",
        family="",
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        layers=(_layer(keys, hidden),) * layer_count(keys, "n_layer", "num_hidden_layers"),
        final_norm=LAYERNORM,
        tied_embeddings=keys.flag("tie_word_embeddings", default=False),
        max_positions=keys.count("n_positions", "max_position_embeddings"),
        embedding_dropout=keys.fraction("embd_pdrop", default=0.0),
        head_bias=True,
    )


def _layer(keys: Keys, hidden: int) -> Layer:
    heads = keys.count("n_head", "num_attention_heads")
    head_dim = even_head_dim(keys, hidden=hidden, heads=heads, key="n_embd")
    turned = keys.optional_count("rotary_dim", default=ROTARY_DIM) or head_dim
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            rope_fraction=min(turned / head_dim, 1.0),
            dropout=keys.fraction("attn_pdrop", default=0.0),
        ),
        mlp=MLP(
            intermediate=keys.optional_count("n_inner") or 4 * hidden,
            gated=False,
            activation=activation(keys, "activation_function", default="gelu_new"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=None,
        parallel=True,
        dropout=keys.fraction("resid_pdrop", default=0.0),
    )
