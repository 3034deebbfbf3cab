"""The best plans so far, and the frontier: what floors are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.search.question import Question

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Structure: TypeAlias = tuple[int, ...]
"""The cluster, then pp and the degrees: what makes two plans structurally different."""

RESOLUTION = 0.01
"""What lies within this of a plan of the frontier, in both directions, adds nothing to it."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A plan that meets every limit, by where it was weighed.

    Attributes:
        key: what it is ranked by, the least first.
        cluster: which of the question's clusters.
        group: the number of its group there.
        row: its place there.
        seconds: of a step.
        device: bytes on the worst rank's device.
    """

    key: tuple[float, float, int]
    cluster: int
    group: int
    row: int
    seconds: float
    device: int


class Ranking:
    """The best plan of each structure, over all clusters."""

    def __init__(self, question: Question) -> None:
        """Start with none."""
        self._question = question
        self._best: dict[Structure, Found] = {}

    def top(self) -> list[tuple[Structure, Found]]:
        """The best plan of each structure, the best first, as many as are asked for."""
        ranked = sorted(self._best.items(), key=lambda item: (item[1].key, item[0]))
        return ranked[: self._question.top]

    def offer(self, structure: Structure, found: Found) -> None:
        """Take a plan where it is the best of its structure."""
        known = self._best.get(structure)
        if known is None or (found.key, found.group, found.row) < (
            known.key,
            known.group,
            known.row,
        ):
            self._best[structure] = found

    def wants(self, structure: Structure, found: Found) -> bool:
        """Whether a plan would change the top."""
        known, top = self._best.get(structure), self.top()
        if known is not None and known.key <= found.key:
            return False
        return len(top) < self._question.top or found.key < top[-1][1].key

    def key(
        self, cluster: int, seconds: float, device: int, capacity: int, odd: int
    ) -> tuple[float, float, int]:
        """What a plan is ranked by: what is asked for, then the other of the two, then plainness.

        ``odd`` counts the knobs that it sets (`tonnage.search.plainer.plainness`).
        """
        if self._question.objective == "headroom":
            return float(device - capacity), seconds, odd
        if self._question.objective == "gpus":
            return float(self._question.clusters[cluster].gpus), seconds, odd
        return seconds * self._rate(cluster), float(device), odd

    def limits(self, cluster: int, structures: Sequence[Structure], capacity: int) -> Floats:
        """What a plan of each structure must be below to change the top.

        Seconds of a step; device bytes where headroom is asked for. Infinite where any plan
        would do.
        """
        top = self.top()
        bar = top[-1][1] if len(top) == self._question.top else None
        return np.array(
            [
                min(
                    self._limit(cluster, self._best.get(structure), capacity),
                    self._limit(cluster, bar, capacity),
                )
                for structure in structures
            ]
        )

    def _limit(self, cluster: int, known: Found | None, capacity: int) -> float:
        if known is None:
            return math.inf
        if self._question.objective == "headroom":
            return known.key[0] + capacity
        if self._question.objective == "gpus":
            gpus = self._question.clusters[cluster].gpus
            return (
                known.key[1]
                if known.key[0] == gpus
                else math.copysign(math.inf, known.key[0] - gpus)
            )
        return known.key[0] / self._rate(cluster)

    def _rate(self, cluster: int) -> float:
        """What a second counts on a cluster: itself, or money."""
        where = self._question.clusters[cluster]
        if self._question.objective != "cost":
            return 1.0
        return (self._question.price(where) or 0.0) * where.gpus / 3600.0


class Frontier:
    """Plans of one cluster of which none is both faster and smaller than another."""

    def __init__(self) -> None:
        """Start with none."""
        self.seconds: Floats = np.empty(0)
        self.device: Floats = np.empty(0)
        self.where: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)

    def add(self, seconds: Floats, device: Floats, group: int, rows: NDArray[np.int64]) -> None:
        """Take plans that meet every limit."""
        places = np.stack([np.full(len(rows), group), rows], axis=1)
        every = (
            np.concatenate([self.seconds, seconds]),
            np.concatenate([self.device, device]),
            np.concatenate([self.where, places]),
        )
        order = np.lexsort((every[2][:, 1], every[2][:, 0], every[1], every[0]))
        device = every[1][order]
        least = np.minimum.accumulate(device)
        kept = order[np.concatenate([[True], device[1:] < least[:-1]])] if len(order) else order
        self.seconds, self.device, self.where = every[0][kept], every[1][kept], every[2][kept]

    def adds(self, seconds: Floats, device: Floats) -> Mask:
        """Whether plans with these floors could lie before the frontier, to its resolution."""
        if not len(self.seconds):
            return np.ones(len(seconds), dtype=bool)
        place = np.searchsorted(self.seconds, seconds * (1 + RESOLUTION), side="right")
        least = np.concatenate([[np.inf], self.device])[place]
        better: Mask = device * (1 + RESOLUTION) < least
        return better

    def thinned(self, span: float) -> list[int]:
        """Its plans, the fastest first, each a step of the resolution from the one before."""
        kept: list[int] = []
        for index in range(len(self.seconds)):
            if self.seconds[index] > self.seconds[0] * span:
                break
            if not kept or self.device[index] * (1 + RESOLUTION) < self.device[kept[-1]]:
                kept.append(index)
        return kept
