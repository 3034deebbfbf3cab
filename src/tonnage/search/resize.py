"""The same kind of model, deeper or wider."""

from __future__ import annotations

import dataclasses
import math

from tonnage.arch import Architecture, Attention, Layer
from tonnage.arch.feed_forward import MLP
from tonnage.errors import NotModelledError

WIDTH_STEP = 64
"""Hidden and feed-forward widths are multiples of it, which tiles of products divide."""


def with_layers(architecture: Architecture, count: int) -> Architecture:
    """The model with another number of layers: cut at its end, or its pattern gone on with.

    The pattern is the shortest one that the second half of the layers repeats, so that a model
    with a dense start stays dense only there, and one that alternates goes on alternating.
    """
    layers = list(architecture.layers[:count])
    period = _period(architecture.layers)
    while len(layers) < count:
        layers.append(layers[-period])
    return dataclasses.replace(
        architecture, layers=tuple(layers), name=f"{architecture.name}, {count} layers"
    )


def _period(layers: tuple[Layer, ...]) -> int:
    half = layers[len(layers) // 2 :]
    for period in range(1, len(half)):
        if all(half[i] == half[i - period] for i in range(period, len(half))):
            return period
    return len(half)


def with_heads(
    architecture: Architecture, heads: int, *, layer_step: int = 1, width_step: int = WIDTH_STEP
) -> Architecture:
    """The model scaled in width and depth alike, to a number of query heads.

    Heads keep their width, groups of keys and values their number; hidden and feed-forward
    widths and the number of layers grow by the same factor, to the nearest multiple of a step.

    Raises:
        NotModelledError: its layers are not all attention with one dense feed-forward part.
    """
    attention, mlp = _plain(architecture)
    scale = heads / attention.heads
    depth = len(architecture.layers)
    layer = architecture.layers[0]
    wider = dataclasses.replace(
        layer,
        mixer=dataclasses.replace(attention, heads=heads),
        mlp=dataclasses.replace(mlp, intermediate=_multiple(mlp.intermediate * scale, width_step)),
    )
    count = _multiple(depth * scale, layer_step)
    return dataclasses.replace(
        architecture,
        name=f"{architecture.name} scaled",
        hidden=_multiple(architecture.hidden * scale, width_step),
        layers=(wider,) * count,
    )


def head_step(architecture: Architecture, tp: int) -> int:
    """The least number of query heads that groups and tensor parallelism divide.

    Raises:
        NotModelledError: as `with_heads`.
    """
    attention, _ = _plain(architecture)
    return math.lcm(attention.kv_heads, tp)


def _plain(architecture: Architecture) -> tuple[Attention, MLP]:
    layer = architecture.layers[0]
    same = len(set(architecture.layers)) == 1
    if same and isinstance(layer.mixer, Attention) and isinstance(layer.mlp, MLP):
        return layer.mixer, layer.mlp
    raise NotModelledError(
        field="max",
        value="params",
        problem=f"has no one meaning for {architecture.name}, whose layers are not all attention "
        "with one dense feed-forward part",
        accepted="--max layers",
    )


def _multiple(value: float, of: int) -> int:
    return max(1, round(value / of)) * of
