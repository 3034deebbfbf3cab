"""What ties the numbers of a plan together, over columns: as `tonnage.plan.check` has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.plan import Plan
from tonnage.plan.check_layer import TP_SPLITS

Columns = dict[str, NDArray[np.int64]]


def joint(
    rows: Columns, *, pp: int, vpp: int, sp: bool, plan: Plan, cluster: Cluster
) -> NDArray[np.bool_]:
    """Which rows are legal together; each value by itself is taken to be.

    Args:
        rows: tp, cp, ep, etp, dp, mbs, grad_acc and seq.
        pp: pipeline stages.
        vpp: virtual stages; the accumulation must be whole rounds of the stages with several.
        sp: sequence parallelism.
        plan: for the global batch.
        cluster: for the number of ranks.
    """
    tp, cp, dp = rows["tp"], rows["cp"], rows["dp"]
    legal: NDArray[np.bool_] = tp * cp * dp * pp == cluster.gpus
    legal &= (tp * cp * dp) % (rows["ep"] * rows["etp"]) == 0
    legal &= rows["mbs"] * dp * rows["grad_acc"] == plan.gbs
    # Causal attention is balanced over cp ranks by giving each an early and a late piece.
    pieces = np.where(cp > 1, 2 * cp, 1)
    legal &= rows["seq"] % np.lcm(pieces, cp * tp if sp else cp) == 0
    if vpp > 1:
        legal &= rows["grad_acc"] % pp == 0
    if plan.optimizer_in_backward:
        legal &= rows["grad_acc"] == 1
    return legal


def exchanged(rows: Columns, exchange: str, architecture: Architecture) -> NDArray[np.bool_]:
    """Which rows can share keys and values in one way: heads that are exchanged stay whole.

    Args:
        rows: tp and cp.
        exchange: as `tonnage.plan.Plan.cp_comm`.
        architecture: for the heads.
    """
    legal = np.ones(len(rows["tp"]), dtype=bool)
    if exchange != "a2a":
        return legal
    for layer in architecture.kinds():
        for field, _ in TP_SPLITS.get(type(layer.mixer), ()):
            legal &= (getattr(layer.mixer, field) // rows["tp"]) % rows["cp"] == 0
    return legal


def distinct(columns: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows of some columns that differ: a place of each, and which of them every row is."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = np.unique(column)
        code = code * len(values) + np.searchsorted(values, column)
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return first, place
