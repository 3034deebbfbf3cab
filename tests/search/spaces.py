"""Small questions, and all the plans of their spaces."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.plan.strategies import DENSE, cluster
from tonnage.arch import Architecture
from tonnage.estimation import Limits
from tonnage.plan import Plan, resolve
from tonnage.search import Question
from tonnage.search.batch import batches
from tonnage.search.candidates import Candidates
from tonnage.search.evaluate import evaluate
from tonnage.search.group import Group, Weighed
from tonnage.search.hunt import Hunt
from tonnage.search.pieces import plan_of_row
from tonnage.search.rank import Ranking
from tonnage.search.space import Space

SHALLOW = dataclasses.replace(DENSE, layers=DENSE.layers[:4])
"""So few layers that all layouts and depths of four devices can be weighed."""


def question(
    architecture: Architecture = SHALLOW,
    *,
    gpus: int = 4,
    runtime: str = "megatron",
    gbs: int = 16,
    seq: int = 128,
    choices: Mapping[str, tuple[Any, ...]] | None = None,
    limits: Limits | None = None,
    **more: Any,
) -> Question:
    """A question about a small model."""
    return Question(
        architecture=architecture,
        clusters=(cluster(gpus),),
        base=Plan(runtime=runtime, gbs=gbs, seq=seq),
        choices=choices or {},
        limits=limits or Limits(),
        **more,
    )


def hunt(asked: Question) -> Hunt:
    """A hunt that has found nothing yet, so that its bounds exclude nothing that fits."""
    space = Space(question=asked, cluster=asked.clusters[0])
    return Hunt(space, 0, Ranking(asked), lambda _: None)


def every_candidate(asked: Question) -> Iterator[Candidates]:
    """All plans of a space, group by group, with their floors."""
    begun = hunt(asked)
    for batch in batches(begun.space):
        yield from begun.candidates(batch, np.arange(len(batch.floor)), quick=False)


def every_weighed(asked: Question, step: int = 1) -> Iterator[tuple[Candidates, Group, Weighed]]:
    """One in so many groups of a space, and what its plans weigh, without bounds."""
    where = asked.clusters[0]
    for candidates in itertools.islice(every_candidate(asked), 0, None, step):
        choice, rows = candidates.choice, candidates.rows
        plan = plan_of_row(choice.batch.space, choice.fields(rows), rows, 0)
        group = Group(plan=resolve(plan, asked.architecture, where).plan, columns=rows)
        yield candidates, group, evaluate(asked.architecture, group, where)
