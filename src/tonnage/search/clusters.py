"""Clusters in the order that a search goes through them, and those that it need not look at."""

from __future__ import annotations

import dataclasses

from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import estimate
from tonnage.search.question import Question
from tonnage.search.rank import Ranking


class Clusters:
    """The clusters of a question, the smallest first."""

    def __init__(self, question: Question) -> None:
        """Put them in order.

        Raises:
            InputError: none has as few hosts as are asked for.
        """
        self._question = question
        self._alone: dict[str, float] = {}
        kept = [
            index
            for index, cluster in enumerate(question.clusters)
            if question.max_nodes is None or cluster.nodes <= question.max_nodes
        ]
        if not kept:
            raise InputError(
                field="max_nodes",
                value=question.max_nodes,
                problem="is less than any of the clusters has",
                accepted=f"{min(cluster.nodes for cluster in question.clusters)} or more",
            )
        self.order = sorted(kept, key=lambda index: question.clusters[index].gpus)

    def settled(self, ranking: Ranking, index: int) -> bool:
        """Whether fewer GPUs have an answer already, where the fewest are asked for."""
        top = ranking.top()
        gpus = self._question.clusters[index].gpus
        return self._question.objective == "gpus" and bool(top) and top[0][1].key[0] < gpus

    def late(self, index: int) -> bool:
        """Whether not even every FLOP at the published peak meets the deadline and the budget."""
        cluster = self._question.clusters[index]
        longest = self._question.longest_step(cluster)
        return longest < float("inf") and self._least(cluster) > longest

    def _least(self, cluster: Cluster) -> float:
        """Seconds of a step at the least: those of one device at its peak, shared by all."""
        name = cluster.device.name
        if name not in self._alone:
            base = dataclasses.replace(self._question.base, mbs=1, grad_acc=None)
            one = cluster.override(gpus=1)
            try:
                step = estimate(self._question.architecture, base, one).step
            except InputError:
                # What asks for several devices says nothing on one.
                self._alone[name] = 0.0
            else:
                self._alone[name] = step.lower_bound_seconds * (1 - 1e-9)
        return self._alone[name] / cluster.gpus
