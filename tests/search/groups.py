"""Random groups of legal plans, and each of their plans alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.plan.strategies import runs
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import TonnageError
from tonnage.plan import Plan, Resolved, resolve
from tonnage.search.group import NUMERIC, Group

Case = tuple[Architecture, Group, Cluster]

CHANGES: dict[str, tuple[int, ...]] = {
    "tp": (1, 2, 4, 8),
    "cp": (1, 2),
    "ep": (1, 2, 4),
    "etp": (1, 2),
    "mbs": (1, 2, 3, 4),
    "grad_acc": (1, 2, 4, 8, 12),
    "seq": (64, 128, 192, 256, 512),
}


def resolved_or_none(plan: Plan, architecture: Architecture, cluster: Cluster) -> Resolved | None:
    """A plan resolved; None where it is not legal."""
    try:
        return resolve(plan, architecture, cluster)
    except TonnageError:
        return None


def grouped(plans: list[Resolved]) -> Group:
    """A group of resolved plans that share their choices; the first stands for them."""
    columns = {
        name: np.array([getattr(each.setting, name) for each in plans], dtype=np.int64)
        for name in NUMERIC
    }
    return Group(plan=plans[0].plan, columns=columns)


@st.composite
def groups(draw: st.DrawFn) -> Case:
    """A model, plans for it that differ in numbers only, and their cluster."""
    architecture, plan, cluster = draw(runs())
    first = resolve(plan, architecture, cluster)
    found = [first]
    for _ in range(draw(st.integers(1, 6))):
        some = {name: draw(st.sampled_from(values)) for name, values in CHANGES.items()}
        chosen = draw(st.sets(st.sampled_from(list(CHANGES)), min_size=1))
        changes: dict[str, Any] = {name: some[name] for name in chosen}
        other = dataclasses.replace(first.plan, **changes, dp=None, gbs=None)
        if (legal := resolved_or_none(other, architecture, cluster)) is not None:
            found.append(legal)
    return architecture, grouped(found), cluster
