"""Does the predictor pick the right plan? Among measured plans of one model and batch."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tonnage.score.metrics import Outcome

TELLING = 0.05
"""Two measured times closer than this are a tie: not a pair to be ordered."""

GROUP = ("model", "layers", "hidden", "seq_len", "gpu", "num_gpus", "gbs", "framework")
"""Rows that agree in these columns are plans for the same job."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How well plans are ranked.

    Attributes:
        groups: jobs with two or more measured plans.
        mean_regret: throughput lost by taking the plan ranked first, over the best measured.
        median_regret: likewise.
        worst_regret: likewise.
        pairs: pairs of plans of a job that differ by more than 5 %.
        pairwise_order: share of those pairs that is ordered right.
    """

    groups: int
    mean_regret: float | None
    median_regret: float | None
    worst_regret: float | None
    pairs: int
    pairwise_order: float | None


def choice(outcomes: Iterable[Outcome]) -> Choice:
    """Rank the plans of each job by predicted time, and see what that costs."""
    jobs: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.predicted is not None:
            key = tuple(outcome.row.text(column) for column in GROUP)
            jobs[outcome.row.family, *key].append((outcome.predicted, outcome.measured))
    groups = [plans for plans in jobs.values() if len(plans) > 1]
    regrets = [_regret(plans) for plans in groups]
    ordered = [right for plans in groups for right in _ordered(plans)]
    return Choice(
        groups=len(groups),
        mean_regret=statistics.fmean(regrets) if regrets else None,
        median_regret=statistics.median(regrets) if regrets else None,
        worst_regret=max(regrets) if regrets else None,
        pairs=len(ordered),
        pairwise_order=sum(ordered) / len(ordered) if ordered else None,
    )


def _regret(plans: Sequence[tuple[float, float]]) -> float:
    """One less the throughput of the plan ranked first over the best plan's."""
    taken = min(plans)[1]
    best = min(measured for _, measured in plans)
    return 1.0 - best / taken


def _ordered(plans: Sequence[tuple[float, float]]) -> list[bool]:
    return [
        (one[0] < other[0]) == (one[1] < other[1])
        for one, other in combinations(plans, 2)
        if max(one[1], other[1]) > (1 + TELLING) * min(one[1], other[1])
    ]
