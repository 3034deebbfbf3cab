"""Decoders as Megatron-Core composes them: each part of a layer is a choice of its own.

The keys are the fields of its ``TransformerConfig`` and of the classes that extend it
(https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/transformer.html),
with a few that Megatron-LM's and GPT-NeoX's arguments add. No config.json on the hub has
this form; launch files of those tools are read through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, even_head_dim, layer_count, mixture
from tonnage.arch.feed_forward import MLP, FeedForward, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention, LatentAttention
from tonnage.arch.norm import LAYERNORM, RMSNORM, Norm

DROPOUT: Final = 0.1
"""Both dropouts of a config that names none (``TransformerConfig``)."""

POSITIONS: Final = ("learned_absolute", "rope", "yarn", "mrope", "none", "alibi")
_NORMS: Final = {
    "layernorm": LAYERNORM,
    "layernorm1p": LAYERNORM,
    "rmsnorm": RMSNORM,
    "non_parametric_layernorm": Norm(kind="layernorm", weight=False),
}


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``megatron``."""
    hidden = keys.count("hidden_size")
    norm = _norm(keys)
    position = keys.word("position_embedding_type", default="learned_absolute")
    if position not in POSITIONS:
        keys.refuse(
            "position_embedding_type", problem="is not modelled", accepted=", ".join(POSITIONS)
        )
    positions = keys.count("max_position_embeddings")
    layers = _layers(keys, hidden, norm, rope=position in ("rope", "yarn", "mrope"))
    mtp = keys.count("mtp_num_layers", default=0, least=0, most=DEEPEST)
    return Architecture(
        name="",
        family="",
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        layers=layers,
        final_norm=norm,
        tied_embeddings=keys.flag("share_embeddings_and_output_weights", default=True),
        max_positions=positions,
        learned_positions=positions if position == "learned_absolute" else 0,
        embedding_dropout=keys.fraction("hidden_dropout", default=DROPOUT),
        mtp_layers=mtp,
        mtp=layers[-1] if mtp else None,
    )


def _norm(keys: Keys) -> Norm:
    name = keys.word("normalization", default="LayerNorm")
    found = _NORMS.get(name.lower())
    if found is None:
        keys.refuse("normalization", problem="is not modelled", accepted="LayerNorm, RMSNorm")
    centred = found.kind == "rmsnorm" and keys.flag("layernorm_zero_centered_gamma", default=False)
    return replace(found, bias=found.bias and keys.flag("norm_bias", default=True), centred=centred)


def _layers(keys: Keys, hidden: int, norm: Norm, *, rope: bool) -> tuple[Layer, ...]:
    count = layer_count(keys, "num_layers")
    dense: FeedForward = _mlp(keys, _width(keys, hidden))
    parallel = keys.flag("parallel_residual", default=False)
    layer = Layer(
        mixer=_mixer(keys, hidden, norm, rope=rope),
        mlp=dense,
        mixer_norm=norm,
        mlp_norm=None if parallel and keys.flag("shared_norm", default=False) else norm,
        parallel=parallel,
        dropout=keys.fraction("hidden_dropout", default=DROPOUT),
    )
    routed = replace(layer, mlp=_experts(keys, hidden)) if _has_experts(keys) else layer
    routes = _routes(keys, count)
    whole = _without_window(keys, count)
    made = (routed if route else layer for route in routes)
    return tuple(_unwindowed(one) if every else one for one, every in zip(made, whole, strict=True))


def _width(keys: Keys, hidden: int) -> int:
    """4 h; two thirds of it in whole 64s where the block is gated (Megatron-LM's arguments)."""
    usual = 4 * hidden
    if keys.flag("gated_linear_unit", default=False):
        usual = 4 * hidden * 2 // 3 // 64 * 64
    return keys.optional_count("ffn_hidden_size") or max(usual, 1)


def _mlp(keys: Keys, width: int) -> MLP:
    return MLP(
        intermediate=width,
        gated=keys.flag("gated_linear_unit", default=False),
        activation=activation(keys, "activation_func", default="gelu"),
        bias=keys.flag("add_bias_linear", default=True),
    )


def _mixer(keys: Keys, hidden: int, norm: Norm, *, rope: bool) -> Attention | LatentAttention:
    heads = keys.count("num_attention_heads")
    dropout = keys.fraction("attention_dropout", default=DROPOUT)
    if keys.flag("multi_latent_attention", default=False):
        return LatentAttention(
            heads=heads,
            query_rank=keys.optional_count("q_lora_rank"),
            kv_rank=keys.count("kv_lora_rank", default=32),
            nope_head_dim=keys.count("qk_head_dim", default=128),
            rope_head_dim=keys.count("qk_pos_emb_head_dim", default=64),
            value_head_dim=keys.count("v_head_dim", default=128),
            dropout=dropout,
        )
    groups = keys.optional_count("num_query_groups") or heads
    if heads % groups:
        keys.fail(
            "num_query_groups",
            groups,
            problem=f"does not divide the {heads} attention heads",
            accepted=f"a divisor of {heads}",
        )
    bias = keys.flag("add_bias_linear", default=True)
    width = keys.optional_count("kv_channels")
    return Attention(
        heads=heads,
        kv_heads=groups,
        head_dim=width or even_head_dim(keys, hidden=hidden, heads=heads),
        qkv_bias=keys.flag("attention_bias", default=bias)
        or keys.flag("add_qkv_bias", default=False),
        output_bias=keys.flag("attention_bias", default=bias),
        qk_norm=norm if keys.flag("qk_layernorm", default=False) else None,
        rope=rope,
        rope_fraction=keys.fraction("rotary_percent", default=1.0),
        window=keys.optional_count("window_size"),
        one_projection=True,
        dropout=dropout,
    )


def _has_experts(keys: Keys) -> bool:
    return keys.optional_count("num_moe_experts") is not None


def _experts(keys: Keys, hidden: int) -> MoE:
    """Routed experts, whose projections have no biases with grouped products."""
    width = keys.optional_count("moe_ffn_hidden_size") or _width(keys, hidden)
    expert = _mlp(keys, width)
    shared = keys.optional_count("moe_shared_expert_intermediate_size")
    routed = mixture(
        keys,
        experts=keys.count("num_moe_experts"),
        expert=expert,
        shared=replace(expert, intermediate=shared) if shared else None,
        top_k_names=("moe_router_topk",),
    )
    return replace(
        routed,
        shared_gate=keys.flag("moe_shared_expert_gate", default=False),
        latent=keys.optional_count("moe_latent_size"),
    )


def _routes(keys: Keys, count: int) -> tuple[bool, ...]:
    """Which layers route: a list of zeros and ones, or every N-th from the first on."""
    if not _has_experts(keys):
        return (False,) * count
    pattern = keys.values.get("moe_layer_freq")
    if isinstance(pattern, list | tuple):
        listed = keys.switches("moe_layer_freq", length=count)
        return listed or (True,) * count
    every = keys.count("moe_layer_freq", default=1, most=DEEPEST)
    return tuple(index % every == 0 for index in range(count))


def _without_window(keys: Keys, count: int) -> tuple[bool, ...]:
    """Which layers see all positions where the others have a window (Gemma 3, gpt-oss)."""
    pattern = keys.values.get("window_attn_skip_freq")
    if pattern is None or keys.values.get("window_size") is None:
        return (False,) * count
    if isinstance(pattern, list | tuple):
        slides = keys.switches("window_attn_skip_freq", length=count) or (True,) * count
        return tuple(not one for one in slides)
    every = keys.count("window_attn_skip_freq", most=DEEPEST)
    return tuple((index + 1) % every == 0 for index in range(count))


def _unwindowed(layer: Layer) -> Layer:
    assert isinstance(layer.mixer, Attention | LatentAttention)
    if isinstance(layer.mixer, LatentAttention):
        return layer
    return replace(layer, mixer=replace(layer.mixer, window=None))


def from_fields(**fields: object) -> Mapping[str, object]:
    """A config of this family from the fields that are known: None leaves one out."""
    return {
        "model_type": "megatron",
        **{name: value for name, value in fields.items() if value is not None},
    }
