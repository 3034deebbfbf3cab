"""The part of a model that a weight belongs to, by how its name begins."""

from __future__ import annotations

from typing import Final

from tonnage.ledger.operation import Weight

_PARTS: Final = (
    ("moe.expert", "experts"),
    ("moe.router", "router"),
    ("moe.shared_norm", "norms"),
    ("moe.input_norm", "norms"),
    ("moe.output_norm", "norms"),
    ("moe.", "mlp"),
    ("mlp.", "mlp"),
    ("layer.mixer_norm", "norms"),
    ("layer.mixer_output_norm", "norms"),
    ("layer.cross_norm", "norms"),
    ("layer.mlp_norm", "norms"),
    ("layer.mlp_output_norm", "norms"),
    ("layer.per_layer_norm", "norms"),
    ("layer.", "connections"),
)
"""The part of a weight inside a layer; else the mixer's."""

_ENDS: Final = ("embedding", "head", "vision", "mtp")
"""What stands outside the layers, by its own name."""

LAYER_PARTS: Final = frozenset({"attention", "mlp", "experts", "router", "norms", "connections"})
"""All that a layer's weights can belong to."""


def part_of(weight: Weight) -> str:
    """The part of a layer that a weight belongs to."""
    return next((part for start, part in _PARTS if weight.name.startswith(start)), "attention")


def place_of(weight: Weight) -> str:
    """The part of a model that a weight belongs to, in its layers or outside."""
    start = weight.name.partition(".")[0]
    return start if start in _ENDS else part_of(weight)
