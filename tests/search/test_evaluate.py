"""A plan weighs inside a search what it weighs alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from tests.plan.strategies import DEEPSEEK, DENSE, cluster
from tests.search.groups import Case, grouped, groups
from tonnage.arch import Architecture
from tonnage.estimation import estimate
from tonnage.plan import Plan, resolve
from tonnage.plan.schedule import CHUNKS, SPLITS
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


@pytest.mark.parametrize("architecture", [DENSE, DEEPSEEK], ids=lambda each: each.name)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("schedule", SPLITS)
def test_the_worst_stage_is_found_where_gradients_are_put_off(
    architecture: Architecture, recompute: str, schedule: str
) -> None:
    """Later stages may hold more for their weights than the first of their like."""
    plan = Plan(pp=4, vpp=CHUNKS.get(schedule) or 1, schedule=schedule, grad_acc=16, seq=256)  # type: ignore[arg-type]
    plan = dataclasses.replace(plan, recompute=recompute)  # type: ignore[arg-type]
    where = cluster(8)
    group = grouped([resolve(plan, architecture, where)])
    found = evaluate(architecture, group, where)
    alone = estimate(architecture, plan_of(group, 0), where)
    assert found.worst_stage[0] == alone.memory.worst_stage
    assert found.reserved[0] == alone.memory.peak_bytes.reserved
