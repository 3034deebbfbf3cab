"""Phi-1 to 2 (arXiv 2309.05463) and Phi-3 to 4 (arXiv 2404.14219).

Phi-2 is parallel behind one norm, with biases everywhere, a biased head and 0.4 of each
head turned; Phi-3 is Llama with its projections joined.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    activation,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    partial_rotary,
    pre_norm_layer,
)
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.norm import LAYERNORM

ROTARY_SHARE: Final = 0.5
"""Share of a head that the rotary embedding turns in a Phi file that does not say."""


def read_phi(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``phi``."""
    attention = grouped_query_attention(
        keys,
        qkv_bias=True,
        output_bias=True,
        qk_norm=LAYERNORM if keys.flag("qk_layernorm", default=False) else None,
    )
    mlp = MLP(
        intermediate=keys.count("intermediate_size"),
        gated=False,
        activation=activation(keys, "hidden_act", default="gelu_new"),
        bias=True,
    )
    layer = Layer(
        mixer=replace(attention, rope_fraction=partial_rotary(keys, default=ROTARY_SHARE)),
        mlp=mlp,
        mixer_norm=LAYERNORM,
        mlp_norm=None,
        parallel=True,
        dropout=keys.fraction("resid_pdrop", default=0.0),
    )
    return replace(
        decoder(keys, layers=(layer,) * layer_count(keys), tied=False, final_norm=LAYERNORM),
        embedding_dropout=keys.fraction("embd_pdrop", default=0.0),
        head_bias=True,
    )


def read_phi3(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``phi3``; ``embd_pdrop`` is read by no code."""
    attention = replace(
        grouped_query_attention(keys),
        rope_fraction=partial_rotary(keys, default=1.0),
        window=keys.optional_count("sliding_window"),
    )
    layer = replace(
        pre_norm_layer(attention, gated_mlp(keys)),
        dropout=keys.fraction("resid_pdrop", default=0.0),
    )
    return decoder(keys, layers=(layer,) * layer_count(keys), tied=False)
