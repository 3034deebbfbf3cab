"""Memory and time of the plans of a group."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation import Limits, estimate
from tonnage.plan import Plan
from tonnage.search.group import NUMERIC, Group, Weighed
from tonnage.timing.step import PARTS


def plan_of(group: Group, index: int) -> Plan:
    """One plan of a group, as `tonnage.estimation.estimate` takes it."""
    numbers: dict[str, Any] = {name: int(group.columns[name][index]) for name in NUMERIC}
    shard = numbers.pop("shard")
    gbs = numbers["mbs"] * numbers["grad_acc"] * numbers["dp"]
    hsdp = None if group.plan.hsdp_shard is None else shard
    return dataclasses.replace(group.plan, **numbers, gbs=gbs, hsdp_shard=hsdp)


def evaluate(
    architecture: Architecture, group: Group, cluster: Cluster, limits: Limits | None = None
) -> Weighed:
    """Memory and time of every plan of a group.

    Args:
        architecture: what is trained.
        group: the plans.
        cluster: on what.
        limits: for the efficiency that the time assumes.

    Raises:
        InputError: a choice of the group is impossible, or a figure is not published.
        NotModelledError: it asks for something that is not accounted for.
    """
    found = [
        estimate(architecture, plan_of(group, index), cluster, limits)
        for index in range(len(group))
    ]
    peaks = [each.memory.peak_bytes for each in found]
    return Weighed(
        allocated=np.array([peak.allocated for peak in peaks], dtype=np.int64),
        reserved=np.array([peak.reserved for peak in peaks], dtype=np.int64),
        device=np.array([peak.device for peak in peaks], dtype=np.int64),
        worst_stage=np.array([each.memory.worst_stage for each in found], dtype=np.int64),
        seconds=np.array([each.step.seconds for each in found]),
        parts={part: np.array([each.step.breakdown[part] for each in found]) for part in PARTS},
    )
