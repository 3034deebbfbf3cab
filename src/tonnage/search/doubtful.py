"""Plans whose closed bound of reserved memory is too large, and whose tensors are not.

Where a runtime's allocations can be replayed, the bound is far above what a replay finds. So the
best of the plans that it excludes are replayed before they are dropped.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonnage.estimation import Estimate
from tonnage.search.rank import Found, Ranking, Structure

MOST: Final = 16
"""Plans that are replayed at the most: a replay takes as long as thousands of plans weighed."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A plan that meets every limit but the closed bound of memory.

    Attributes:
        structure: as in a ranking.
        found: the plan, its bytes without what the allocator cannot reuse.
    """

    structure: Structure
    found: Found


def last_replayed(doubts: list[Doubt]) -> float:
    """Seconds of the slowest plan that would be replayed; a slower one never is."""
    if len(doubts) < MOST:
        return math.inf
    return heapq.nsmallest(MOST, (doubt.found.seconds for doubt in doubts))[-1]


def settle(
    ranking: Ranking, doubts: list[Doubt], weigh: Callable[[Found], tuple[Estimate, Found]]
) -> tuple[int, list[Found]]:
    """Replay the plans that would be among the best, and rank those that fit.

    Args:
        ranking: the best plans so far; what fits is put among them.
        doubts: plans in doubt.
        weigh: the estimate of a plan, and its place in a ranking by that.

    Returns:
        How many were replayed, and those that fit.
    """
    tried = 0
    fitting: list[Found] = []
    for doubt in sorted(doubts, key=lambda each: (each.found.key, each.structure)):
        if tried == MOST:
            break
        if not ranking.wants(doubt.structure, doubt.found):
            continue
        tried += 1
        answer, found = weigh(doubt.found)
        if answer.fits:
            ranking.offer(doubt.structure, found)
            fitting.append(found)
    return tried, fitting
