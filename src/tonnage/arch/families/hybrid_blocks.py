"""What the hybrids share: which layer has which mixer, and Mamba-2 under IBM's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.arch.families.blocks import FULL, activation
from tonnage.arch.families.mamba import even_groups
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.recurrent import GatedDelta, Mamba2

LINEAR: Final = "linear_attention"
OLDER_NAMES: Final = {"attention": FULL, "mamba": LINEAR}
"""Kinds of layers as files before transformers 5 call them."""


def mixed_layers(
    keys: Keys,
    parts: Mapping[str, Layer],
    *,
    default: Iterable[str],
    names: tuple[str, ...] = ("layer_types",),
) -> tuple[Layer, ...]:
    """The layer that each kind of ``layer_types`` stands for.

    Args:
        keys: the config.
        parts: the layer of each kind.
        default: the kinds of a config that does not list them, one a layer.
        names: the key, and its aliases.
    """
    fallback = tuple(default)
    key = next((name for name in names if keys.has(name)), names[0])
    given = keys.words(key, length=len(fallback)) or fallback
    kinds = [OLDER_NAMES.get(kind, kind) for kind in given]
    odd = sorted({*kinds} - {*parts})
    if odd:
        keys.refuse(
            key, problem=f"names {odd[0][:40]!r}, not modelled here", accepted=", ".join(parts)
        )
    return tuple(parts[kind] for kind in kinds)


def every_nth_full(count: int, every: int) -> tuple[str, ...]:
    """Every ``every``-th layer has full attention, the others a linear mixer."""
    return tuple(LINEAR if (i + 1) % every else FULL for i in range(count))


def gated_delta(
    keys: Keys,
    *,
    heads_default: int | None = None,
    key_width_default: int | None = None,
    value_width_default: int | None = None,
) -> GatedDelta:
    """Gated DeltaNet under the names that Qwen3-Next gave its keys.

    Args:
        keys: the config.
        heads_default: heads of a config that does not say.
        key_width_default: width of a query or key head of a config that does not say.
        value_width_default: width of a value head of a config that does not say.
    """
    activation(keys, "hidden_act", default="silu")
    key_heads = keys.count("linear_num_key_heads", default=heads_default)
    value_heads = keys.count("linear_num_value_heads", default=heads_default)
    if value_heads % key_heads:
        keys.fail(
            "linear_num_value_heads",
            value_heads,
            problem=f"is no multiple of the {key_heads} key heads",
            accepted=f"a multiple of {key_heads}",
        )
    return GatedDelta(
        key_heads=key_heads,
        value_heads=value_heads,
        key_head_dim=keys.count("linear_key_head_dim", default=key_width_default),
        value_head_dim=keys.count("linear_value_head_dim", default=value_width_default),
        conv_kernel=keys.count("linear_conv_kernel_dim"),
    )


def refuse_tied(keys: Keys) -> None:
    """Refuse tied embeddings where the family's class does not tie them, whatever the key says."""
    if keys.flag("tie_word_embeddings", default=False):
        keys.refuse("tie_word_embeddings", problem="is not modelled here", accepted="false")


def ibm_mamba2(keys: Keys) -> Mamba2:
    """Mamba-2 under the names of Bamba and Granite 4."""
    inner = keys.count("mamba_expand") * keys.count("hidden_size")
    heads = keys.count("mamba_n_heads")
    even = inner // heads
    automatic = keys.values.get("mamba_d_head", "auto") == "auto"
    head_dim = max(even, 1) if automatic else keys.count("mamba_d_head")
    if heads * head_dim != inner:
        keys.fail(
            "mamba_n_heads",
            heads,
            problem=f"times a width of {head_dim} is not mamba_expand times hidden_size",
            accepted=f"heads and widths whose product is {inner}",
        )
    return Mamba2(
        heads=heads,
        head_dim=head_dim,
        groups=even_groups(keys, "mamba_n_groups", heads=heads),
        state=keys.count("mamba_d_state"),
        conv_kernel=keys.count("mamba_d_conv"),
        chunk=keys.count("mamba_chunk_size", default=256),
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        bias=keys.flag("mamba_proj_bias", default=False),
    )
