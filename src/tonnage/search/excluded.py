"""Rows of degrees of which a bound excluded every plan, for a figure: by their floors."""

from __future__ import annotations

from typing import Final

import numpy as np

from tonnage.search.answer import Mark
from tonnage.search.batch import Batch, Index
from tonnage.search.hunt import Hunt

MOST: Final = 2000
"""Rows that are kept of a cluster: a figure shows no more."""

_DEGREES: Final = ("tp", "cp", "ep", "etp", "mbs")


def excluded(hunt: Hunt) -> list[Mark]:
    """Rows that no plan was weighed of, with the least seconds and bytes that one could have.

    Evenly spread over all rows where they are too many, with the fastest of each number of
    stages. Rows whose states alone are larger than a device have no floor of time, and are not
    among them.
    """
    weighed = _weighed(hunt)
    total = sum(len(batch.floor) for batch in hunt.batches)
    where = f"{hunt.space.cluster.gpus}x{hunt.space.cluster.device.name}"
    marks = []
    for batch in hunt.batches:
        for row in _chosen(batch, total).tolist():
            degrees = tuple(int(batch.rows[name][row]) for name in _DEGREES)
            if (batch.pp, batch.sp, *degrees) in weighed:
                continue
            tp, cp, ep, etp, mbs = degrees
            named = f"tp {tp} sp {'on' if batch.sp else 'off'} pp {batch.pp} cp {cp} ep {ep}"
            marks.append(
                Mark(
                    seconds=float(batch.floor[row]),
                    device_bytes=int(batch.least[row]),
                    good=False,
                    label=f"{where} {named} etp {etp} mbs {mbs}",
                )
            )
    return marks


def _chosen(batch: Batch, total: int) -> Index:
    """Which rows of a batch are looked at: its share of the most that are kept."""
    rows = len(batch.floor)
    count = min(rows, max(1, round(MOST * rows / max(total, MOST))))
    spread = np.linspace(0, rows - 1, count).astype(np.intp)
    found: Index = np.unique(np.append(spread, np.argmin(batch.floor)))
    return found


def _weighed(hunt: Hunt) -> set[tuple[int, ...]]:
    """Stages, sequence parallelism and degrees of the plans that were weighed."""
    found: set[tuple[int, ...]] = set()
    for group in hunt.groups:
        columns = (group.columns[name].tolist() for name in _DEGREES)
        shared = group.plan.pp, bool(group.plan.sp)
        found.update((*shared, *degrees) for degrees in zip(*columns, strict=True))
    return found
