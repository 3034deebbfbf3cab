"""A search: every cluster, then the best plans estimated one by one."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable

import numpy as np

from tonnage.errors import InputError
from tonnage.estimation import Estimate, estimate
from tonnage.plan import Plan
from tonnage.search.answer import Mark, Neighbour, Point, Proposal, SearchAnswer
from tonnage.search.binding import bindings
from tonnage.search.evaluate import plan_of
from tonnage.search.hunt import Hunt
from tonnage.search.neighbours import neighbours
from tonnage.search.question import Question
from tonnage.search.rank import Ranking
from tonnage.search.space import Space

Note = Callable[[float], None]


def find_plans(question: Question, note: Note = lambda _: None) -> SearchAnswer:
    """Find the best plans.

    Args:
        question: what is asked.
        note: is told the share of the work that is done, from 0 to 1.

    Raises:
        InputError: no plan is legal, or the question contradicts itself.
        NotModelledError: the model's runs are not modelled.
    """
    if not isinstance(question, Question):
        raise InputError(
            field="question",
            value=question,
            problem=f"is {type(question).__name__}, and not a Question",
            accepted="tonnage.Question(...)",
        )
    begun = time.perf_counter()
    ranking = Ranking(question)
    hunts: dict[int, Hunt] = {}
    complete = True
    order = _order(question)
    try:
        for place, cluster in enumerate(order):
            if _settled(question, ranking, cluster):
                continue
            space = Space(question=question, cluster=question.clusters[cluster])
            part = functools.partial(_noted, note, place, len(order))
            hunts[cluster] = Hunt(space, cluster, ranking, part)
            hunts[cluster].run()
    except KeyboardInterrupt:
        complete = False
    _refuse_empty(question, hunts, complete=complete)
    return _answer(question, ranking, hunts, complete=complete, begun=begun)


def _noted(note: Note, place: int, clusters: int, share: float) -> None:
    note((place + share) / clusters)


def _order(question: Question) -> list[int]:
    """Clusters, the smallest first."""
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
    return sorted(kept, key=lambda index: question.clusters[index].gpus)


def _settled(question: Question, ranking: Ranking, cluster: int) -> bool:
    """Whether a smaller cluster has an answer already, where fewest GPUs are asked for."""
    top = ranking.top()
    gpus = question.clusters[cluster].gpus
    return question.objective == "gpus" and bool(top) and top[0][1].key[0] < gpus


def _refuse_empty(question: Question, hunts: dict[int, Hunt], *, complete: bool) -> None:
    if not complete or any(hunt.size for hunt in hunts.values()):
        return
    chosen = ", ".join(f"{name} {list(v)}" for name, v in question.choices.items())
    raise InputError(
        field="SPACE",
        value=chosen or question.architecture.name,
        problem="holds no legal plan on "
        + ", ".join(f"{c.gpus}x{c.device.name}" for c in question.clusters),
        hint="tonnage estimate says of one plan why it is not legal",
    )


def _answer(
    question: Question, ranking: Ranking, hunts: dict[int, Hunt], *, complete: bool, begun: float
) -> SearchAnswer:
    proposals = []
    for _, found in ranking.top():
        plan = plan_of(hunts[found.cluster].groups[found.group], found.row)
        proposals.append(_proposal(question, found.cluster, plan))
    best = ranking.top()[0][1] if proposals else None
    evaluated = sum(len(group) for hunt in hunts.values() for group in hunt.groups)
    beside: tuple[Neighbour, ...] = ()
    if best is not None:
        beside = neighbours(question, question.clusters[best.cluster], proposals[0].estimate)
    nearest = None if proposals or not question.fitting or not complete else _nearest(question)
    return SearchAnswer(
        space=sum(hunt.size for hunt in hunts.values()) if complete else evaluated,
        evaluated=evaluated,
        feasible=sum(int(c.good.sum()) for hunt in hunts.values() for c in hunt.cloud),
        seconds=time.perf_counter() - begun,
        complete=complete,
        plans=tuple(proposals),
        frontier=() if best is None else _frontier(question, hunts[best.cluster]),
        bindings=bindings(proposals[0].estimate, beside) if proposals else (),
        neighbours=beside,
        nearest=nearest,
        cloud=tuple(mark for hunt in hunts.values() for mark in _marks(hunt)),
    )


def _proposal(question: Question, cluster: int, plan: Plan) -> Proposal:
    where = question.clusters[cluster]
    answer = estimate(question.architecture, plan, where, question.limits_on(where))
    return Proposal(plan=answer.plan, estimate=answer, cost=_cost(question, cluster, answer))


def _cost(question: Question, cluster: int, answer: Estimate) -> float | None:
    where = question.clusters[cluster]
    price = question.price(where)
    if price is None:
        return None
    hours = answer.step.seconds * (question.steps() or 1) / 3600.0
    return price * where.gpus * hours


def _nearest(question: Question) -> Proposal | None:
    """The plan that needs least memory, whether it fits or not."""
    loose = dataclasses.replace(question, objective="headroom", top=1, fitting=False)
    found = find_plans(dataclasses.replace(loose, deadline=None, budget=None))
    return found.plans[0] if found.plans else None


def _frontier(question: Question, hunt: Hunt) -> tuple[Point, ...]:
    points = []
    for index in hunt.frontier.thinned(question.span):
        group, row = hunt.frontier.where[index]
        points.append(
            Point(
                seconds=float(hunt.frontier.seconds[index]),
                device_bytes=int(hunt.frontier.device[index]),
                device=hunt.space.cluster.device.name,
                gpus=hunt.space.cluster.gpus,
                plan=plan_of(hunt.groups[int(group)], int(row)),
            )
        )
    return tuple(points)


def _marks(hunt: Hunt) -> list[Mark]:
    """The fastest good plan of each group, or its fastest where none is good."""
    marks = []
    for cloud in hunt.cloud:
        seconds = np.where(cloud.good, cloud.seconds, cloud.seconds + 1e9 * cloud.good.any())
        row = int(np.argmin(seconds))
        plan = plan_of(hunt.groups[cloud.group], row)
        label = f"tp {plan.tp} pp {plan.pp} vpp {plan.vpp} cp {plan.cp} ep {plan.ep} mbs {plan.mbs}"
        marks.append(
            Mark(
                seconds=float(cloud.seconds[row]),
                device_bytes=int(cloud.device[row]),
                good=bool(cloud.good[row]),
                label=f"{hunt.space.cluster.gpus}x{hunt.space.cluster.device.name} {label}, "
                f"recompute {plan.recompute}",
            )
        )
    return marks
