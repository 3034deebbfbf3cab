"""Copies that the ledger names cost time once."""

from __future__ import annotations

import dataclasses

from tests.plan.strategies import DENSE, cluster
from tonnage.ledger import layer_operations
from tonnage.plan import Plan, Setting, resolve
from tonnage.timing import STATED
from tonnage.timing.kernel import forward_seconds, rates


def seconds(kernels: str) -> dict[str, float]:
    """Forward seconds of the operations of a nanotron layer that only copy."""
    plan = Plan(runtime="nanotron", habits=(("kernels", kernels),), seq=128)
    setting: Setting = resolve(plan, DENSE, cluster(1)).setting
    rate = rates(setting, cluster(1).device, STATED)
    operations = layer_operations(setting, dataclasses.replace(DENSE.layers[0]))
    return {op.name: float(forward_seconds(setting, rate, op)) for op in operations if op.moves}


def test_the_eager_factor_stands_for_copies() -> None:
    assert len(seconds("eager")) == 4
    assert set(seconds("eager").values()) == {0.0}
    assert all(value > 0 for value in seconds("fused").values())
