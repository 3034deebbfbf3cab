"""T5 (arXiv 1910.10683): an encoder and a decoder, biases by distance, heads of their own width."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM

ACTIVATIONS: Final = {"relu": (False, "relu"), "gated-gelu": (True, "gelu_new")}
BUCKETS: Final = 32
DROPOUT: Final = 0.1
GENERATORS: Final = ("T5ForConditionalGeneration", "T5WithLMHeadModel")


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``t5``, for generation.

    The first layer of each side has the table of biases, which its others share.
    """
    keys.only_classes(*GENERATORS)
    if not keys.flag("tie_word_embeddings", default=True):
        keys.refuse(
            "tie_word_embeddings",
            problem="(a head of its own, as in T5 1.1, which transformers ties) is not modelled",
            accepted="true",
        )
    encoder = Layer(
        mixer=_attention(keys, causal=False),
        mlp=_mlp(keys),
        mixer_norm=RMSNORM,
        mlp_norm=RMSNORM,
        dropout=keys.fraction("dropout_rate", default=DROPOUT),
    )
    decoder = replace(
        encoder,
        mixer=_attention(keys),
        cross=_attention(keys, causal=False, cross=True),
        cross_norm=RMSNORM,
    )
    depth = layer_count(keys, "num_layers", "num_hidden_layers")
    symmetric = keys.values.get("num_decoder_layers") is None
    further = depth if symmetric else layer_count(keys, "num_decoder_layers")
    buckets = keys.count("relative_attention_num_buckets", default=BUCKETS)
    return Architecture(
        name="",
        family="",
        hidden=keys.count("d_model", "hidden_size"),
        vocab=keys.count("vocab_size"),
        layers=_first_with_biases(decoder, further, buckets),
        final_norm=RMSNORM,
        tied_embeddings=True,
        max_positions=None,
        embedding_dropout=keys.fraction("dropout_rate", default=DROPOUT),
        encoder=_first_with_biases(encoder, depth, buckets),
        encoder_norm=RMSNORM,
    )


def _first_with_biases(layer: Layer, count: int, buckets: int) -> tuple[Layer, ...]:
    assert isinstance(layer.mixer, Attention)
    first = replace(layer, mixer=replace(layer.mixer, relative_buckets=buckets))
    return (first, *(layer,) * (count - 1))


def _attention(keys: Keys, *, causal: bool = True, cross: bool = False) -> Attention:
    heads = keys.count("num_heads", "num_attention_heads")
    return Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=keys.count("d_kv", "head_dim"),
        rope=False,
        causal=causal,
        cross=cross,
        dropout=keys.fraction("dropout_rate", default=DROPOUT),
    )


def _mlp(keys: Keys) -> MLP:
    name = keys.word("feed_forward_proj", default="relu")
    if name not in ACTIVATIONS:
        keys.refuse("feed_forward_proj", problem="is not modelled", accepted=", ".join(ACTIVATIONS))
    gated, act = ACTIVATIONS[name]
    return MLP(intermediate=keys.count("d_ff"), gated=gated, activation=act)
