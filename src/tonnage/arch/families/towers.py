"""Image encoders: the layers and projectors that several families share."""

from __future__ import annotations

from tonnage.arch.families.blocks import activation, even_head_dim
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM, Norm

Shapes = tuple[tuple[int, ...], ...]


def part(keys: Keys, name: str, *families: str) -> Keys:
    """The nested config of the text or of the tower, whose family must be one of these."""
    inner = keys.nested(name)
    # Some exporters leave the inner name empty.
    if inner.values.get("model_type") in (None, ""):
        return inner
    if inner.word("model_type") not in families:
        inner.refuse("model_type", problem="is not modelled here", accepted=", ".join(families))
    return inner


def encoder_layer(
    keys: Keys,
    *,
    hidden: int,
    heads: int,
    intermediate: int,
    act: tuple[str, ...] = ("hidden_act",),
    act_default: str = "gelu",
    rope: bool = False,
    gated: bool = False,
    norm: Norm = LAYERNORM,
    layer_scale: bool = False,
) -> Layer:
    """A layer of an image encoder: attention to everything, biases everywhere."""
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=hidden, heads=heads),
            qkv_bias=True,
            output_bias=True,
            rope=rope,
            causal=False,
            dropout=keys.fraction("attention_dropout", default=0.0),
        ),
        mlp=MLP(
            intermediate=intermediate,
            gated=gated,
            activation=activation(keys, *act, default=act_default),
            bias=True,
        ),
        mixer_norm=norm,
        mlp_norm=norm,
        layer_scale=layer_scale,
    )


def biased(*shapes: tuple[int, int]) -> Shapes:
    """The shapes of linear layers, each followed by its bias."""
    return tuple(shape for wide, narrow in shapes for shape in ((wide, narrow), (narrow,)))


def patches_per_side(keys: Keys, *, side: int, patch: int) -> int:
    """How many patches an image's side has, without a rest."""
    if side % patch:
        keys.fail(
            "image_size",
            side,
            problem=f"is not a whole number of patches of {patch}",
            accepted=f"a multiple of {patch}",
        )
    return side // patch
