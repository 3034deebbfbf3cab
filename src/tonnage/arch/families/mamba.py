"""Mamba (arXiv 2312.00752), Mamba-2 (arXiv 2405.21060) and Falcon Mamba (arXiv 2410.05355).

Layers that mix positions alone: a norm, the mixer and a residual sum. No position is
embedded and no context length is named.
"""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import activation, layer_count
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer, Mixer
from tonnage.arch.norm import RMSNORM, Norm
from tonnage.arch.recurrent import Mamba, Mamba2

STEP_SHARE: Final = 16
"""An ``auto`` step rank is the hidden size over this, rounded up."""


def read_mamba(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mamba``."""
    return _stack(keys, _mamba(keys, norm=None), tied=True)


def read_falcon_mamba(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``falcon_mamba``.

    Its norms of step latent, B and C have no weights.
    """
    return _stack(keys, _mamba(keys, norm=Norm(kind="rmsnorm", weight=False)), tied=True)


def read_mamba2(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mamba2``."""
    heads, head_dim = keys.count("num_heads"), keys.count("head_dim")
    inner = keys.count("expand") * keys.count("hidden_size")
    if heads * head_dim != inner:
        keys.fail(
            "num_heads",
            heads,
            problem=f"times head_dim {head_dim} is not expand times hidden_size",
            accepted=f"heads and widths whose product is {inner}",
        )
    activation(keys, "hidden_act", default="silu")
    mixer = Mamba2(
        heads=heads,
        head_dim=head_dim,
        groups=even_groups(keys, "n_groups", heads=heads),
        state=keys.count("state_size"),
        conv_kernel=keys.count("conv_kernel"),
        chunk=keys.count("chunk_size"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        bias=keys.flag("use_bias", default=False),
    )
    return _stack(keys, mixer, tied=False)


def step_rank(keys: Keys, name: str) -> int:
    """The rank of the step sizes: a number, or ``auto`` for a sixteenth of the hidden size."""
    if keys.values.get(name, "auto") == "auto":
        return -(-keys.count("hidden_size") // STEP_SHARE)
    return keys.count(name)


def even_groups(keys: Keys, *names: str, heads: int, default: int | None = None) -> int:
    """Groups of Mamba-2, which its heads share evenly."""
    groups = keys.count(*names, default=default)
    if heads % groups:
        keys.fail(
            names[0],
            groups,
            problem=f"does not divide the {heads} heads of Mamba-2",
            accepted=f"a divisor of {heads}",
        )
    return groups


def _mamba(keys: Keys, *, norm: Norm | None) -> Mamba:
    activation(keys, "hidden_act", default="silu")
    inner = keys.count("expand") * keys.count("hidden_size")
    if keys.count("intermediate_size", default=inner) != inner:
        keys.fail(
            "intermediate_size",
            keys.values["intermediate_size"],
            problem="is not expand times hidden_size",
            accepted=str(inner),
        )
    return Mamba(
        inner=inner,
        state=keys.count("state_size"),
        step_rank=step_rank(keys, "time_step_rank"),
        conv_kernel=keys.count("conv_kernel"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        bias=keys.flag("use_bias", default=False),
        norm=norm,
    )


def _stack(keys: Keys, mixer: Mixer, *, tied: bool) -> Architecture:
    layer = Layer(mixer=mixer, mlp=None, mixer_norm=RMSNORM, mlp_norm=None)
    return Architecture(
        name="",
        family="",
        hidden=keys.count("hidden_size"),
        vocab=keys.count("vocab_size"),
        layers=(layer,) * layer_count(keys),
        final_norm=RMSNORM,
        tied_embeddings=keys.flag("tie_word_embeddings", default=tied),
        max_positions=None,
    )
