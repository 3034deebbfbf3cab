"""OPT (arXiv 2205.01068): learnt positions, LayerNorm, ReLU, tied head."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, decoder, even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import Norm

POSITION_OFFSET: Final = 2
"""Rows of the position table before the first position, left from fairseq's padding index."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``opt``."""
    _refuse_variants(keys)
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    norm = Norm(kind="layernorm", bias=affine, weight=affine)
    layers = (_layer(keys, norm),) * layer_count(keys)
    facts = decoder(keys, layers=layers, tied=True, final_norm=norm)
    width = keys.optional_count("word_embed_proj_dim") or facts.hidden
    return replace(
        facts,
        learned_positions=keys.count("max_position_embeddings") + POSITION_OFFSET,
        embedding_width=None if width == facts.hidden else width,
    )


def _layer(keys: Keys, norm: Norm) -> Layer:
    heads = keys.count("num_attention_heads")
    bias = keys.flag("enable_bias", default=True)
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=keys.count("hidden_size"), heads=heads),
            qkv_bias=bias,
            output_bias=bias,
            rope=False,
            dropout=keys.fraction("attention_dropout", default=0.0),
        ),
        mlp=MLP(
            intermediate=keys.count("ffn_dim"),
            gated=False,
            activation=activation(keys, "activation_function", default="relu"),
            bias=bias,
        ),
        mixer_norm=norm,
        mlp_norm=norm,
        dropout=keys.fraction("dropout", default=0.1),
    )


def _refuse_variants(keys: Keys) -> None:
    if not keys.flag("do_layer_norm_before", default=True):
        keys.refuse(
            "do_layer_norm_before",
            problem="(norms after the residual sum, as in OPT-350M) is not modelled",
            accepted="true",
        )
    if keys.flag("_remove_final_layer_norm", default=False):
        keys.refuse("_remove_final_layer_norm", problem="is not modelled", accepted="false")
    if keys.fraction("layerdrop", default=0.0):
        keys.refuse("layerdrop", problem="(layers skipped at random) is not modelled", accepted="0")
