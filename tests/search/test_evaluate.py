"""A plan weighs inside a search what it weighs alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.search.groups import Case, groups
from tonnage.estimation import estimate
from tonnage.search.evaluate import evaluate, plan_of


@given(groups())
@settings(max_examples=30)
def test_a_plan_in_a_group_weighs_what_it_weighs_alone(case: Case) -> None:
    architecture, group, cluster = case
    found = evaluate(architecture, group, cluster)
    for index in range(len(group)):
        alone = estimate(architecture, plan_of(group, index), cluster)
        stage = alone.memory.stages[int(found.worst_stage[index])]
        assert found.allocated[index] == stage.peak_bytes.allocated
        assert found.reserved[index] >= alone.memory.peak_bytes.reserved
        assert found.device[index] - found.reserved[index] == alone.memory.outside_bytes
        if group.plan.runtime != "nanotron":
            assert found.worst_stage[index] == alone.memory.worst_stage
            assert found.reserved[index] == alone.memory.peak_bytes.reserved
        np.testing.assert_allclose(found.seconds[index], alone.step.seconds, rtol=1e-9)
        for part, seconds in alone.step.breakdown.items():
            np.testing.assert_allclose(
                found.parts[part][index], seconds, rtol=1e-9, atol=1e-12, err_msg=part
            )
