"""What is known in bounds only widens the range, by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.strategies import DENSE, cluster
from tonnage.estimation import estimate
from tonnage.plan import Plan


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        ({"cuda_graphs": True}, "CUDA graphs"),
        ({"offload_activations": True}, "offloaded activations"),
        ({"optimizer": "muon"}, "Muon"),
        ({"runtime": "megatron-fsdp"}, "megatron-fsdp"),
    ],
)
def test_a_feature_in_bounds_is_named_and_widens_the_range(plan: dict[str, Any], name: str) -> None:
    found = estimate(DENSE, Plan(seq=256, **plan), cluster(2))
    (stage,) = found.memory.stages
    ((what, (below, above)),) = stage.unsure.items()
    assert what.startswith(name)
    assert below >= 0
    assert above > 0
    assert any(text.startswith(what) for text in found.not_modelled)
    low, high = found.memory.range_bytes
    outside = found.memory.outside_bytes
    assert low == stage.peak_bytes.allocated - below + outside
    assert high >= found.memory.peak_bytes.device + above


def test_what_is_modelled_has_no_slack() -> None:
    found = estimate(DENSE, Plan(seq=256, offload_optimizer=1.0), cluster(2))
    assert found.memory.stages[0].unsure == {}
