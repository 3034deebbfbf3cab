"""Gemma 4 (Google, 2026): wide global heads whose keys are their values, experts beside the MLP.

Windowed layers and global ones have heads of their own widths. Small models add an input to
each layer (a second embedding of the token) and let the last layers read the keys and values
of earlier ones; the large ones route to experts beside the dense MLP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    SLIDING,
    activation,
    decoder,
    grouped_query_attention,
    layer_count,
    layer_types,
    mixture,
)
from tonnage.arch.families.towers import part
from tonnage.arch.feed_forward import MLP, MoE
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM, Norm
from tonnage.arch.vision import VisionTower

BARE: Final = Norm(kind="rmsnorm", weight=False)
GLOBAL_HEAD_DIM: Final = 512
HEAD_DIM: Final = 256
KV_HEADS: Final = 4
PATTERN: Final = 6
PER_LAYER_VOCAB: Final = 262_144
PER_LAYER_WIDTH: Final = 256
ROTARY_SHARE: Final = 0.25
WINDOW: Final = 512


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma4``."""
    if keys.values.get("audio_config") is not None:
        keys.refuse("audio_config", problem="(an audio tower) is not modelled", accepted="null")
    text = read_text(part(keys, "text_config", "gemma4_text"))
    text = replace(text, tied_embeddings=keys.flag("tie_word_embeddings", default=True))
    if keys.values.get("vision_config") is None:
        return text
    return replace(text, vision=_tower(part(keys, "vision_config", "gemma4_vision"), text.hidden))


def read_text(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``gemma4_text``."""
    if keys.values.get("use_bidirectional_attention") not in (None, "vision"):
        keys.refuse("use_bidirectional_attention", problem="is not modelled", accepted="vision")
    count = layer_count(keys)
    kinds = layer_types(
        keys, default=(SLIDING if (i + 1) % PATTERN else FULL for i in range(count))
    )
    kinds = (*kinds[:-1], FULL)  # the class makes the last layer global
    shared = keys.count("num_kv_shared_layers", default=0, least=0, most=count - 1)
    if not {*kinds[count - shared :]} <= {*kinds[: count - shared]}:
        keys.refuse(
            "num_kv_shared_layers",
            problem="leaves a kind of layer without keys of its own",
            accepted="fewer",
        )
    mixers = {FULL: _global(keys), SLIDING: _local(keys)}
    layers = tuple(
        _layer(keys, mixers[kind], shares=i >= count - shared) for i, kind in enumerate(kinds)
    )
    per_layer = keys.count("hidden_size_per_layer_input", default=PER_LAYER_WIDTH, least=0)
    vocab = keys.count("vocab_size_per_layer_input", default=PER_LAYER_VOCAB)
    return replace(
        decoder(keys, layers=layers, tied=True),
        per_layer_vocab=vocab if per_layer else 0,
        logits_softcap=keys.is_set("final_logit_softcapping"),
    )


def _local(keys: Keys) -> Attention:
    bias = keys.flag("attention_bias", default=False)
    return replace(
        grouped_query_attention(
            keys, kv_default=KV_HEADS, head_dim_default=HEAD_DIM, qkv_bias=bias, output_bias=bias
        ),
        qk_norm=RMSNORM,
        value_norm=BARE,
        window=keys.count("sliding_window", default=WINDOW),
    )


def _global(keys: Keys) -> Attention:
    equal = keys.flag("attention_k_eq_v", default=False)
    local = _local(keys)
    kv_heads = keys.optional_count("num_global_key_value_heads") if equal else None
    kv_heads = kv_heads or local.kv_heads
    if local.heads % kv_heads:
        keys.fail(
            "num_global_key_value_heads",
            kv_heads,
            problem=f"does not divide the {local.heads} attention heads",
            accepted=f"a divisor of {local.heads}",
        )
    return replace(
        local,
        kv_heads=kv_heads,
        head_dim=keys.count("global_head_dim", default=GLOBAL_HEAD_DIM),
        rope_fraction=ROTARY_SHARE,
        keys_as_values=equal,
        window=None,
    )


def _layer(keys: Keys, attention: Attention, *, shares: bool) -> Layer:
    width = keys.count("intermediate_size")
    if shares and keys.flag("use_double_wide_mlp", default=False):
        width *= 2
    mlp = MLP(intermediate=width, gated=True, activation=_activation(keys))
    per_layer = keys.count("hidden_size_per_layer_input", default=PER_LAYER_WIDTH, least=0)
    return Layer(
        mixer=replace(attention, shares_kv=shares),
        mlp=_mixture(keys, mlp) if keys.flag("enable_moe_block", default=False) else mlp,
        mixer_norm=RMSNORM,
        mixer_output_norm=RMSNORM,
        mlp_norm=RMSNORM,
        mlp_output_norm=RMSNORM,
        per_layer_input=per_layer or None,
    )


def _activation(keys: Keys) -> str:
    return activation(keys, "hidden_activation", default="gelu_pytorch_tanh")


def _mixture(keys: Keys, dense: MLP) -> MoE:
    """Experts beside the dense MLP: a norm in front of them, one behind each of the two."""
    expert = MLP(
        intermediate=keys.count("moe_intermediate_size"), gated=True, activation=_activation(keys)
    )
    moe = mixture(
        keys,
        experts=keys.count("num_experts"),
        expert=expert,
        shared=dense,
        top_k_names=("top_k_experts",),
    )
    return replace(
        moe,
        router_norm=RMSNORM,
        expert_scale=True,
        input_norm=RMSNORM,
        output_norm=RMSNORM,
        shared_output_norm=RMSNORM,
    )


def _tower(keys: Keys, decoder: int) -> VisionTower:
    if keys.flag("use_clipped_linears", default=False):
        keys.refuse("use_clipped_linears", problem="is not modelled", accepted="false")
    attention = replace(
        grouped_query_attention(keys), qk_norm=RMSNORM, value_norm=BARE, causal=False
    )
    if keys.flag("attention_bias", default=False):
        attention = replace(attention, qkv_bias=True, output_bias=True)
    layer = Layer(
        mixer=attention,
        mlp=MLP(
            intermediate=keys.count("intermediate_size"), gated=True, activation=_activation(keys)
        ),
        mixer_norm=RMSNORM,
        mixer_output_norm=RMSNORM,
        mlp_norm=RMSNORM,
        mlp_output_norm=RMSNORM,
    )
    hidden = keys.count("hidden_size")
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys),
        patch_size=keys.count("patch_size"),
        patch_bias=False,
        positions=2 * keys.count("position_embedding_size"),  # a row and a column
        final_norm=None,
        projector=((hidden, decoder),),
    )
