"""How many plans a space holds, without listing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tonnage.algebra import divisors
from tonnage.search.layouts import Deck
from tonnage.search.legality import Columns
from tonnage.search.space import Space


def plans_of(space: Space, decks: Sequence[Deck], rows: Columns) -> int:
    """Legal plans of some layouts, with depths of recomputation, times rows.

    Rows come with every shard, ZeRO stage and loss.
    """
    ways = _ways(space, rows)
    total = 0
    for deck in decks:
        fitting = int(ways[deck.orders(rows["grad_acc"])].sum())
        for longest, layouts in zip(*np.unique(deck.longest, return_counts=True), strict=True):
            modes = space.depths(int(longest))
            total += modes * int(layouts) * fitting
    return total * len(space.losses)


def _ways(space: Space, rows: Columns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """ZeRO stages, shards and offloads of each row."""
    replicas = rows["dp"] * rows["cp"]
    shards = np.zeros(len(replicas), dtype=np.int64)
    for size in np.unique(replicas):
        shards[replicas == size] = _shards(space, int(size))
    plain = int(space.question.allows("hsdp_shard", None))
    held = {stage: len(space.aways(stage)) for stage in space.zero_stages}
    sharded = sum(ways for stage, ways in held.items() if stage > 0)
    return plain * sum(held.values()) + sharded * shards


def _shards(space: Space, replicas: int) -> int:
    """Parts of so many replicas that parameters can be sharded over."""
    if "hsdp_shard" in space.question.choices:
        given = space.question.choices["hsdp_shard"]
        return sum(n is not None and replicas % n == 0 for n in given)
    return len(divisors(replicas)) - 1
