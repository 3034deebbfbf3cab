"""How many plans a space holds, without listing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tonnage.search.batch import Batch
from tonnage.search.legality import Columns, divisors
from tonnage.search.modes import modes
from tonnage.search.space import Space


def plans_of(space: Space, found: Sequence[Batch]) -> int:
    """Legal plans: layouts, with depths of recomputation, times rows, with shards and losses."""
    depths: dict[int, int] = {}
    total = 0
    for batch in found:
        ways = _ways(space, batch.rows)
        whole = batch.rows["grad_acc"] % batch.pp == 0
        for deck in batch.decks:
            for longest, layouts in zip(*np.unique(deck.longest, return_counts=True), strict=True):
                if longest not in depths:
                    depths[longest] = len(modes(space.question, int(longest)))
                rows = ways[whole] if deck.vpp > 1 else ways
                total += depths[longest] * int(layouts) * int(rows.sum())
    return total * len(space.losses)


def _ways(space: Space, rows: Columns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """ZeRO stages, shards and offloads of each row."""
    replicas = rows["dp"] * rows["cp"]
    shards = np.zeros(len(replicas), dtype=np.int64)
    for size in np.unique(replicas):
        shards[replicas == size] = _shards(space, int(size))
    plain = int(space.question.allows("hsdp_shard", None))
    sharded = sum(stage > 0 for stage in space.zero_stages)
    return (plain * len(space.zero_stages) + sharded * shards) * len(space.offloads)


def _shards(space: Space, replicas: int) -> int:
    """Parts of so many replicas that parameters can be sharded over."""
    if "hsdp_shard" in space.question.choices:
        given = space.question.choices["hsdp_shard"]
        return sum(n is not None and replicas % n == 0 for n in given)
    return len(divisors(replicas)) - 1
