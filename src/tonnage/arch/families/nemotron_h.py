"""Nemotron-H (arXiv 2504.03624) and Nemotron 3: one block a layer, of four kinds.

A letter of ``hybrid_override_pattern`` says which: M Mamba-2, * attention, - MLP, E experts.
Each has one norm and one residual sum. MLPs are not gated, and square their ReLU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    activation,
    decoder,
    grouped_query_attention,
    mixture,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, mixed_layers, refuse_tied
from tonnage.arch.families.mamba import even_groups
from tonnage.arch.feed_forward import MLP, FeedForward, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer, Mixer
from tonnage.arch.norm import RMSNORM
from tonnage.arch.recurrent import Mamba2

LETTERS: Final = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
HEAD_DIM: Final = 128
"""The head of every Nemotron-H; its class fixes it for files that do not state it."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``nemotron_h``."""
    if keys.values.get("sliding_window") is not None:
        keys.refuse("sliding_window", problem="is not modelled here", accepted="null")
    refuse_tied(keys)
    kinds = _kinds(keys)
    makers: dict[str, Callable[[Keys], Mixer | FeedForward]] = {
        LINEAR: _mamba2,
        FULL: _attention,
        "mlp": _mlp,
        "moe": _mixture,
    }
    # A part that no layer has needs no keys.
    parts = {kind: _block(make(keys)) for kind, make in makers.items() if kind in kinds}
    layers = mixed_layers(keys, parts, default=kinds, names=("layers_block_type", "layer_types"))
    mtp = keys.count("num_nextn_predict_layers", default=0, least=0, most=DEEPEST)
    return replace(decoder(keys, layers=layers, tied=False), mtp_layers=mtp)


def _kinds(keys: Keys) -> tuple[str, ...]:
    """The kinds of all layers, from the list or from the pattern of letters."""
    for name in ("layers_block_type", "layer_types"):
        given = keys.values.get(name)
        if given is not None:
            length = len(given) if isinstance(given, list | tuple) else 1
            length = keys.count("num_hidden_layers", default=length, most=DEEPEST)
            return keys.words(name, length=length) or ()
    pattern = keys.word("hybrid_override_pattern")
    odd = sorted({*pattern} - {*LETTERS})
    if odd:
        keys.fail(
            "hybrid_override_pattern",
            pattern,
            problem=f"has the letter {odd[0]!r}",
            accepted=f"the letters {' '.join(LETTERS)}",
        )
    if len(pattern) != keys.count("num_hidden_layers", default=len(pattern), most=DEEPEST):
        keys.fail(
            "hybrid_override_pattern",
            pattern,
            problem=f"has {len(pattern)} letters and not num_hidden_layers",
            accepted=f"{keys.values['num_hidden_layers']} letters",
        )
    return tuple(LETTERS[letter] for letter in pattern)


def _block(part: Mixer | FeedForward) -> Layer:
    if isinstance(part, MLP | MoE):
        return Layer(mixer=None, mlp=part, mixer_norm=None, mlp_norm=RMSNORM)
    return Layer(mixer=part, mlp=None, mixer_norm=RMSNORM, mlp_norm=None)


def _attention(keys: Keys) -> Mixer:
    """Attention without positions or biases; early files say ``attention_head_dim``."""
    head_dim = keys.count("head_dim", "attention_head_dim", default=HEAD_DIM)
    attention = grouped_query_attention(keys, kv_required=True, head_dim_default=head_dim)
    return replace(attention, rope=False)


def _mamba2(keys: Keys) -> Mixer:
    """Mamba-2, whose inner width is that of its heads, whatever ``expand`` says."""
    heads = keys.count("mamba_num_heads")
    activation(keys, "mamba_hidden_act", default="silu")
    return Mamba2(
        heads=heads,
        head_dim=keys.count("mamba_head_dim"),
        groups=even_groups(keys, "n_groups", "mamba_n_groups", heads=heads),
        state=keys.count("ssm_state_size"),
        conv_kernel=keys.count("conv_kernel", "mamba_d_conv"),
        chunk=keys.count("chunk_size", "mamba_chunk_size"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        bias=keys.flag("use_bias", default=False),
    )


def _mlp(keys: Keys, width: str = "intermediate_size") -> MLP:
    return MLP(
        intermediate=keys.count(width),
        gated=False,
        activation=activation(keys, "mlp_hidden_act", default="relu2"),
        bias=keys.flag("mlp_bias", default=False),
    )


def _mixture(keys: Keys) -> MoE:
    """Experts without biases, a shared one beside them, and perhaps a latent before them."""
    moe = mixture(
        keys,
        experts=keys.count("n_routed_experts", "num_local_experts"),
        expert=replace(_mlp(keys, "moe_intermediate_size"), bias=False),
        shared=_mlp(keys, "moe_shared_expert_intermediate_size"),
    )
    latent = keys.optional_count("moe_latent_size")
    return replace(moe, latent=latent, latent_bias=keys.flag("mlp_bias", default=False))
