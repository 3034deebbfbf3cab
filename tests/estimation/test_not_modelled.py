"""What counts in time and not in memory is said, and nothing that does count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.strategies import DENSE, cluster
from tonnage.estimation import estimate
from tonnage.plan import Plan


@pytest.mark.parametrize(
    ("field", "named"), [("compile", "in memory"), ("cuda_graphs", "CUDA graphs")]
)
def test_an_option_that_memory_leaves_out_is_named(field: str, named: str) -> None:
    fields: dict[str, Any] = {field: True}
    plain = estimate(DENSE, Plan(seq=128), cluster(1)).not_modelled
    asked = estimate(DENSE, Plan(seq=128, **fields), cluster(1)).not_modelled
    (added,) = set(asked) - set(plain)
    assert named in added


@pytest.mark.parametrize(("runtime", "played"), [("nanotron", True), ("megatron", False)])
def test_fragmentation_is_left_out_only_where_nothing_is_replayed(
    runtime: str, played: bool
) -> None:
    answer = estimate(DENSE, Plan(runtime=runtime, seq=128), cluster(1))
    assert any("replayed" in note for note in answer.assumptions) == played
    assert any("replay of the alloc" in note for note in answer.not_modelled) != played
