"""What the families share: how a key of a config becomes a part of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.feed_forward import MLP, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer, Mixer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import RMSNORM, Norm

ACTIVATIONS: Final = frozenset(
    {
        "gelu",
        "gelu_fast",
        "gelu_new",
        "gelu_pytorch_tanh",
        "quick_gelu",
        "relu",
        "relu2",
        "silu",
        "swish",
    }
)
FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def layer_count(keys: Keys, *names: str) -> int:
    """How many layers a config names."""
    return keys.count(*(names or ("num_hidden_layers",)), most=DEEPEST)


def activation(keys: Keys, *names: str, default: str) -> str:
    """The activation, by the name that the config gives it."""
    name = keys.word(*names, default=default)
    if name not in ACTIVATIONS:
        key = next(alias for alias in names if keys.has(alias))
        keys.refuse(
            key,
            problem="is an activation that is not modelled",
            accepted=", ".join(sorted(ACTIVATIONS)),
        )
    return name


def even_head_dim(keys: Keys, *, hidden: int, heads: int, key: str = "hidden_size") -> int:
    """The width of a head where the heads share the residual stream's width evenly."""
    if hidden % heads:
        keys.fail(
            key,
            hidden,
            problem=f"is not divisible by the {heads} attention heads",
            accepted=f"a multiple of {heads}",
        )
    return hidden // heads


def grouped_query_attention(
    keys: Keys,
    *,
    heads_default: int | None = None,
    kv_default: int | None = None,
    kv_required: bool = False,
    kv_names: tuple[str, ...] = ("num_key_value_heads",),
    head_dim_default: int | None = None,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: Norm | None = None,
) -> Attention:
    """Attention under the names that Llama gave its keys.

    Args:
        keys: the config.
        heads_default: query heads of a config that does not say.
        kv_default: key and value heads of a config that does not say.
        kv_required: the class default is a number that no file relies on, so an absent
            ``num_key_value_heads`` is an error; otherwise it means as many as query heads.
        kv_names: the names of the number of key and value heads.
        head_dim_default: the family's fixed width of a head; without one, an absent
            ``head_dim`` means an even share of ``hidden_size``.
        qkv_bias: biases on the query, key and value projections.
        output_bias: a bias on the output projection.
        qk_norm: the normalisation of queries and keys.
    """
    heads = keys.count("num_attention_heads", default=heads_default)
    if kv_required:
        keys.require(*kv_names)
    kv_heads = keys.optional_count(*kv_names, default=kv_default) or heads
    if heads % kv_heads:
        keys.fail(
            kv_names[0],
            kv_heads,
            problem=f"does not divide the {heads} attention heads",
            accepted=f"a divisor of {heads}",
        )
    head_dim = keys.optional_count("head_dim", default=head_dim_default)
    if head_dim is None:
        head_dim = even_head_dim(keys, hidden=keys.count("hidden_size"), heads=heads)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm=qk_norm,
        dropout=keys.fraction("attention_dropout", default=0.0),
    )


def gated_mlp(
    keys: Keys,
    *,
    width: str = "intermediate_size",
    act: tuple[str, ...] = ("hidden_act",),
    act_default: str = "silu",
    bias: bool = False,
) -> MLP:
    """A gated feed-forward block whose width stands under ``width``."""
    return MLP(
        intermediate=keys.count(width),
        gated=True,
        activation=activation(keys, *act, default=act_default),
        bias=bias,
    )


def mixture(
    keys: Keys,
    *,
    experts: int,
    expert: MLP,
    shared: MLP | None = None,
    top_k_names: tuple[str, ...] = ("num_experts_per_tok", "num_experts_per_token"),
) -> MoE:
    """A mixture of experts whose router picks ``num_experts_per_tok``."""
    top_k = keys.count(*top_k_names)
    if top_k > experts:
        keys.fail(
            top_k_names[0],
            top_k,
            problem=f"is more than the {experts} experts",
            accepted=f"a whole number from 1 to {experts}",
        )
    return MoE(experts=experts, top_k=top_k, expert=expert, shared=shared)


def shared_mixture(keys: Keys, *, mlp_bias: bool = False, router_fp32: bool = True) -> MoE:
    """A mixture under DeepSeek's names: ``n_shared_experts`` beside ``n_routed_experts``.

    Shared experts are one MLP as wide as all of them; only its projections can have biases.
    The bias that balances the router is moved by a rule and not by gradients: a buffer, not
    a parameter. The classes of transformers keep the router itself in fp32 (not V4's).
    """
    expert = gated_mlp(keys, width="moe_intermediate_size")
    keys.require("n_shared_experts")  # null is none
    count = keys.optional_count("n_shared_experts")
    width = (count or 0) * expert.intermediate
    routed = mixture(
        keys,
        experts=keys.count("n_routed_experts", "num_local_experts"),
        expert=expert,
        shared=replace(expert, intermediate=width, bias=mlp_bias) if width else None,
    )
    return replace(routed, router_fp32=router_fp32)


def pre_norm_layer(mixer: Mixer, mlp: MLP | MoE, *, norm: Norm = RMSNORM) -> Layer:
    """The layer that most families share: an RMSNorm before each of the two parts."""
    return Layer(mixer=mixer, mlp=mlp, mixer_norm=norm, mlp_norm=norm)


def layer_types(keys: Keys, *, default: Iterable[str]) -> tuple[str, ...]:
    """The kind of attention of each layer, as ``layer_types`` or the family's pattern says."""
    fallback = tuple(default)
    kinds = keys.words("layer_types", length=len(fallback)) or fallback
    if not {*kinds} <= {FULL, SLIDING}:
        odd = min({*kinds} - {FULL, SLIDING})
        keys.refuse(
            "layer_types",
            problem=f"names {odd[:40]!r}, not modelled",
            accepted=f"{FULL}, {SLIDING}",
        )
    return kinds


def partial_rotary(keys: Keys, *, default: float) -> float:
    """The share of a head that is turned: a key of its own, or one of ``rope_parameters``."""
    name = "partial_rotary_factor"
    if isinstance(keys.values.get("rope_parameters"), Mapping):
        default = keys.nested("rope_parameters").fraction(name, default=default)
    return keys.fraction(name, default=default)


def rotary_layers(keys: Keys, count: int, *, every: int = 4) -> tuple[bool, ...]:
    """Which layers turn queries and keys: ``no_rope_layers`` has a 1 for each that does.

    Without the list, each ``no_rope_layer_interval``-th does not (Llama 4, SmolLM3).
    """
    flags = keys.switches("no_rope_layers", length=count)
    interval = keys.count("no_rope_layer_interval", default=every, most=DEEPEST)
    return flags or tuple((i + 1) % interval != 0 for i in range(count))


def windowed(
    keys: Keys, layer: Layer, kinds: Iterable[str], *, window: int | None
) -> tuple[Layer, ...]:
    """One layer for each kind: the same, with a window where the kind slides."""
    assert isinstance(layer.mixer, Attention)
    kinds = tuple(kinds)
    if window is None and SLIDING in kinds:
        keys.fail(
            "sliding_window",
            None,
            problem="leaves the sliding layers without a window",
            accepted="a positive whole number",
        )
    sliding = replace(layer, mixer=replace(layer.mixer, window=window))
    return tuple(sliding if kind == SLIDING else layer for kind in kinds)


def decoder(
    keys: Keys,
    *,
    layers: tuple[Layer, ...],
    tied: bool,
    vocab_default: int | None = None,
    positions_default: int | None = None,
    final_norm: Norm = RMSNORM,
    hidden: int | None = None,
) -> Architecture:
    """A decoder under the names that Llama gave its keys, for `read_config` to name.

    Args:
        keys: the config.
        layers: its layers.
        tied: what an absent ``tie_word_embeddings`` means in this family.
        vocab_default: rows of the embedding of a config that does not say.
        positions_default: context length of a config that does not say.
        final_norm: the norm before the head.
        hidden: the residual stream's width, where its key has another name.
    """
    return Architecture(
        name="",
        family="",
        hidden=keys.count("hidden_size") if hidden is None else hidden,
        vocab=keys.count("vocab_size", default=vocab_default),
        layers=layers,
        final_norm=final_norm,
        tied_embeddings=keys.flag("tie_word_embeddings", default=tied),
        max_positions=keys.count("max_position_embeddings", default=positions_default),
    )


def multi_token_prediction(keys: Keys, facts: Architecture, layer: Layer) -> Architecture:
    """The same model with the further-token predictors that ``num_nextn_predict_layers`` counts.

    Args:
        keys: the config.
        facts: the model without them.
        layer: the layer that each of them has.
    """
    count = keys.count(
        "num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=DEEPEST
    )
    return replace(facts, mtp_layers=count, mtp=layer if count else None)
