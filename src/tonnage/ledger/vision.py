"""An image encoder: its parameters. Its compute and activations are not modelled."""

from __future__ import annotations

import dataclasses

from tonnage.arch import VisionTower
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.operation import Operation, Operations, Weight, weights_of
from tonnage.plan import Setting


def vision(setting: Setting, tower: VisionTower) -> Operations:
    """The tower and the projector behind it, as one operation that owns their weights."""
    owner = Operation(name="vision", kind="elementwise", weights=_weights(setting, tower))
    return (owner,)


def _weights(setting: Setting, tower: VisionTower) -> tuple[Weight, ...]:
    patch = tower.frames * tower.channels * tower.patch_size**2
    singles = tower.positions + tower.patch_bias + tower.class_token
    norms = [rule for rule in (tower.first_norm, tower.final_norm) if rule is not None]
    singles += sum(rule.weight + rule.bias for rule in norms)
    shapes: list[tuple[int, ...]] = [(patch, tower.hidden), (singles, tower.hidden)]
    shapes.extend(tower.projector)
    trains = setting.trains_base
    own = tuple(
        Weight(name=f"vision.{index}", shape=shape, trains=trains)
        for index, shape in enumerate(shapes)
    )
    # A layer reads the width of its own model.
    narrow = dataclasses.replace(setting.architecture, hidden=tower.hidden)
    inside = dataclasses.replace(setting, architecture=narrow)
    inner = tuple(
        weight for layer in tower.layers for weight in weights_of(layer_operations(inside, layer))
    )
    # A tower's layers are not the decoder's.
    apart = tuple(dataclasses.replace(w, name=f"vision.{w.name}") for w in inner)
    return own + apart
