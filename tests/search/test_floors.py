"""A floor is never above what a plan weighs, and not far below it either."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.search.groups import Case, grouped, groups
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.plan import Plan, resolve
from tonnage.search.evaluate import evaluate
from tonnage.search.floors import memory_floor, seconds_floor


@given(groups())
@settings(max_examples=30)
def test_floors_are_never_above_the_truth(case: Case) -> None:
    architecture, group, cluster = case
    found = evaluate(architecture, group, cluster)
    assert (memory_floor(architecture, group, cluster) <= found.allocated).all()
    assert (seconds_floor(architecture, group, cluster) <= found.seconds).all()


def test_floors_of_a_large_model_are_close() -> None:
    architecture, cluster = load("gpt3-175b"), parse_cluster("512xA100-80GB")
    plan = Plan(tp=8, pp=8, gbs=512, seq=2048, recompute="selective")
    group = grouped([resolve(plan, architecture, cluster)])
    found = evaluate(architecture, group, cluster)
    assert np.all(memory_floor(architecture, group, cluster) > 0.7 * found.allocated)
    assert np.all(seconds_floor(architecture, group, cluster) > 0.8 * found.seconds)
