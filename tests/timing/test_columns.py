"""The time of a column of plans is, plan by plan, what each plan takes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ledger.test_columns import CASES, DENSE_ROWS, MOE_ROWS, base, column, named, one
from tonnage.algebra import Number
from tonnage.arch import Architecture
from tonnage.cluster import Cluster, parse_cluster
from tonnage.ledger import stage_ledgers
from tonnage.plan import Setting, stages
from tonnage.plan.layout import Stage
from tonnage.timing.step import StepTime, step_time

CLUSTERS = (parse_cluster("16xB200"), parse_cluster("64xA100-40GB"))


def timed(setting: Setting, layout: tuple[Stage, ...], cluster: Cluster) -> StepTime:
    return step_time(setting, stage_ledgers(setting, layout), cluster)


def figures(time: StepTime) -> dict[str, Number]:
    """Every second that a step's time is made of."""
    found = {"seconds": time.seconds, **time.parts}
    for index, stage in enumerate(time.stages):
        own = {"forward": stage.forward, "backward": stage.backward, "ahead": stage.ahead}
        own |= {"recompute": stage.recompute, "host": stage.host, **stage.exposed}
        found |= {f"{name} of stage {index}": value for name, value in own.items()}
        for place, item in enumerate(stage.replicas):
            found[f"bytes {place} of stage {index}"] = item.bytes
    return found


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.device.name)
@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_time_of_a_column_is_that_of_its_plans(
    case: tuple[Architecture, str, dict[str, Any]], cluster: Cluster
) -> None:
    architecture, runtime, choices = case
    setting = base(architecture, runtime, **choices)
    if setting.precision.matmul not in cluster.device.peak:
        pytest.skip("a format that the device does not multiply")
    rows = MOE_ROWS if architecture.is_moe else DENSE_ROWS
    layout = stages(architecture, setting.plan)
    together = figures(timed(column(setting, rows), layout, cluster))
    alone = [figures(timed(one(setting, row), layout, cluster)) for row in rows]
    for name, value in together.items():
        expected = [float(row[name]) for row in alone]
        np.testing.assert_allclose(
            np.broadcast_to(value, len(rows)), expected, rtol=1e-12, atol=1e-18, err_msg=name
        )
