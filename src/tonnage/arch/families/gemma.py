"""Gemma 1 to 3, text (arXiv 2403.08295, 2408.00118, 2503.19786): GeGLU, wide heads, tied head.

Gemma 2 put a norm on both sides of each part, alternates windows with full attention and
caps scores and logits; Gemma 3 has five windowed layers to a full one and normalises
queries and keys instead of capping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    SLIDING,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    layer_types,
    pre_norm_layer,
    windowed,
)
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import CENTRED_RMSNORM

HEAD_DIM: Final = 256
WINDOW: Final = 4096
GEMMA2_PATTERN: Final = 2
GEMMA3_PATTERN: Final = 6

# The 4B's text_config on the hub has four keys; the rest of it is Gemma3TextConfig's defaults.
GEMMA3_HEADS: Final = 8
GEMMA3_KV_HEADS: Final = 4
GEMMA3_VOCAB: Final = 262_208
GEMMA3_POSITIONS: Final = 131_072


def read_gemma(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma``."""
    layer = pre_norm_layer(_attention(keys), _mlp(keys), norm=CENTRED_RMSNORM)
    return _decoder(keys, layers=(layer,) * layer_count(keys))


def read_gemma2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma2``."""
    attention = replace(_attention(keys), softcap=_caps(keys, "attn_logit_softcapping", usual=True))
    layers = _alternating(keys, _sandwiched(attention, _mlp(keys)), every=GEMMA2_PATTERN)
    return replace(
        _decoder(keys, layers=layers),
        logits_softcap=_caps(keys, "final_logit_softcapping", usual=True),
    )


def read_gemma3_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma3_text``, alone or nested in ``gemma3``."""
    attention = replace(
        _attention(keys, heads_default=GEMMA3_HEADS, kv_default=GEMMA3_KV_HEADS),
        qk_norm=CENTRED_RMSNORM,
        softcap=_caps(keys, "attn_logit_softcapping", usual=False),
    )
    every = keys.count(
        "sliding_window_pattern", "_sliding_window_pattern", default=GEMMA3_PATTERN, most=DEEPEST
    )
    return replace(
        _decoder(
            keys,
            layers=_alternating(keys, _sandwiched(attention, _mlp(keys)), every=every),
            vocab_default=GEMMA3_VOCAB,
            positions_default=GEMMA3_POSITIONS,
        ),
        logits_softcap=_caps(keys, "final_logit_softcapping", usual=False),
    )


def _decoder(keys: Keys, *, layers: tuple[Layer, ...], **defaults: int) -> Architecture:
    return decoder(keys, layers=layers, tied=True, final_norm=CENTRED_RMSNORM, **defaults)


def _attention(
    keys: Keys, *, heads_default: int | None = None, kv_default: int | None = None
) -> Attention:
    if keys.flag("use_bidirectional_attention", default=False):
        keys.refuse("use_bidirectional_attention", problem="is not modelled", accepted="false")
    bias = keys.flag("attention_bias", default=False)
    return grouped_query_attention(
        keys,
        heads_default=heads_default,
        kv_default=kv_default,
        kv_required=kv_default is None,
        head_dim_default=HEAD_DIM,
        qkv_bias=bias,
        output_bias=bias,
    )


def _mlp(keys: Keys) -> MLP:
    """The first Gemma files say ``gelu`` in ``hidden_act`` and mean its tanh form."""
    names = ("hidden_activation",) if keys.values.get("hidden_activation") else ("hidden_act",)
    mlp = gated_mlp(keys, act=names, act_default="gelu_pytorch_tanh")
    return replace(mlp, activation="gelu_pytorch_tanh") if mlp.activation == "gelu" else mlp


def _sandwiched(attention: Attention, mlp: MLP) -> Layer:
    return replace(
        pre_norm_layer(attention, mlp, norm=CENTRED_RMSNORM),
        mixer_output_norm=CENTRED_RMSNORM,
        mlp_output_norm=CENTRED_RMSNORM,
    )


def _alternating(keys: Keys, layer: Layer, *, every: int) -> tuple[Layer, ...]:
    """Each ``every``-th layer sees all positions, the others a window."""
    count = layer_count(keys)
    pattern: Iterable[str] = (FULL if (i + 1) % every == 0 else SLIDING for i in range(count))
    kinds = layer_types(keys, default=pattern)
    window = keys.optional_count("sliding_window", default=WINDOW)
    return windowed(keys, layer, kinds, window=window)


def _caps(keys: Keys, name: str, *, usual: bool) -> bool:
    return keys.is_set(name) if keys.has(name) else usual
