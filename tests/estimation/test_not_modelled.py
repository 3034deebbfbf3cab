"""What counts in time and not in memory is said."""

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
