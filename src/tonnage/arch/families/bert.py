"""BERT (arXiv 1810.04805): both directions, norms behind the sums, segments, a masked head."""

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
MASKED: Final = ("BertForMaskedLM", "BertLMHeadModel")
SEGMENTS: Final = 2


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``bert``, with the head that fills in masks."""
    _refuse_variants(keys)
    positions = keys.count("max_position_embeddings")
    return Architecture(
        name="",
        family="",
        hidden=keys.count("hidden_size"),
        vocab=keys.count("vocab_size"),
        layers=(_layer(keys),) * layer_count(keys),
        final_norm=None,
        tied_embeddings=True,
        max_positions=positions,
        learned_positions=positions,
        token_types=keys.count("type_vocab_size", default=SEGMENTS),
        embedding_norm=LAYERNORM,
        embedding_dropout=keys.fraction("hidden_dropout_prob", default=DROPOUT),
        head_transform=True,
        head_bias=True,
    )


def _layer(keys: Keys) -> Layer:
    heads = keys.count("num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=keys.count("hidden_size"), heads=heads),
            qkv_bias=True,
            output_bias=True,
            rope=False,
            causal=False,
            dropout=keys.fraction("attention_probs_dropout_prob", default=DROPOUT),
        ),
        mlp=MLP(
            intermediate=keys.count("intermediate_size"),
            gated=False,
            activation=activation(keys, "hidden_act", default="gelu"),
            bias=True,
        ),
        mixer_norm=LAYERNORM,
        mlp_norm=LAYERNORM,
        norm_after_sum=True,
        dropout=keys.fraction("hidden_dropout_prob", default=DROPOUT),
    )


def _refuse_variants(keys: Keys) -> None:
    for name in ("is_decoder", "add_cross_attention"):
        if keys.flag(name, default=False):
            keys.refuse(name, problem="is not modelled", accepted="false")
    if keys.word("position_embedding_type", default="absolute") != "absolute":
        keys.refuse("position_embedding_type", problem="is not modelled", accepted="absolute")
    keys.only_classes(*MASKED)
    if not keys.flag("tie_word_embeddings", default=True):
        keys.refuse("tie_word_embeddings", problem="is not modelled", accepted="true")
