"""Linear layers that a runtime makes one of: one product, one parameter."""

from __future__ import annotations

from typing import Final

from tonnage.ledger.operation import Weight
from tonnage.plan import Setting

JOINED: Final = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}
"""Habits that make one product of several linear layers, and the last parts of their names."""


def parameter(setting: Setting, weight: Weight) -> str:
    """The name of the parameter that a weight is, or is a part of."""
    layer, _, kind = weight.name.rpartition(".")
    stem, _, last = layer.rpartition(".")
    for habit, parts in JOINED.items():
        if last in parts and getattr(setting.runtime, habit) == "fused":
            return f"{stem}.{habit}.{kind}"
    return weight.name
