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
from tonnage.search.clusters import Clusters
from tonnage.search.doubtful import settle
from tonnage.search.evaluate import plan_of
from tonnage.search.excluded import excluded
from tonnage.search.hunt import Hunt
from tonnage.search.neighbours import neighbours
from tonnage.search.plainer import plainer
from tonnage.search.question import Question
from tonnage.search.rank import Found, Ranking
from tonnage.search.refusal import first_refusal
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
    complete, replayed = True, 0
    clusters = Clusters(question)
    order = clusters.order
    try:
        for place, cluster in enumerate(order):
            if clusters.settled(ranking, cluster) or clusters.late(cluster):
                continue
            space = Space(question=question, cluster=question.clusters[cluster])
            part = functools.partial(_noted, note, place, len(order))
            hunts[cluster] = Hunt(space, cluster, ranking, part)
            hunts[cluster].run()
        replayed = _settle(question, ranking, hunts)
    except KeyboardInterrupt:
        complete = False
    _refuse_empty(question, hunts, complete=complete)
    return _answer(question, ranking, hunts, complete=complete, replayed=replayed, begun=begun)


def _noted(note: Note, place: int, clusters: int, share: float) -> None:
    note((place + share) / clusters)


def _refuse_empty(question: Question, hunts: dict[int, Hunt], *, complete: bool) -> None:
    if not complete or not hunts or any(hunt.size for hunt in hunts.values()):
        return
    chosen = ", ".join(f"{name} {list(v)}" for name, v in question.choices.items())
    where = ", ".join(f"{c.gpus}x{c.device.name}" for c in question.clusters)
    refused = first_refusal(question)
    if refused is not None:
        raise InputError(
            field=refused.field,
            value=refused.value,
            problem=refused.problem,
            accepted=refused.accepted,
            hint=f"no plan with {chosen or question.architecture.name} is legal on {where}",
        )
    raise InputError(
        field="SPACE",
        value=chosen or question.architecture.name,
        problem=f"holds no legal plan on {where}",
        hint="tonnage estimate says of one plan why it is not legal",
    )


def _settle(question: Question, ranking: Ranking, hunts: dict[int, Hunt]) -> int:
    """Replay the best plans that only a closed bound of memory excludes; how many were."""

    def weigh(found: Found) -> tuple[Estimate, Found]:
        hunt = hunts[found.cluster]
        plan = plan_of(hunt.groups[found.group], found.row)
        answer = estimate(question.architecture, plan, hunt.space.cluster, question.limits)
        device = answer.memory.peak_bytes.device
        return answer, hunt.found(found.group, found.row, found.seconds, device)

    doubts = [doubt for hunt in hunts.values() for doubt in hunt.doubts]
    tried, fitting = settle(ranking, doubts, weigh)
    for found in fitting:
        hunt, row = hunts[found.cluster], np.array([found.row])
        hunt.cloud[found.group].good[row] = True
        seconds, device = np.array([found.seconds]), np.array([float(found.device)])
        hunt.frontier.add(seconds, device, found.group, row)
    return tried


def _answer(
    question: Question,
    ranking: Ranking,
    hunts: dict[int, Hunt],
    *,
    complete: bool,
    replayed: int,
    begun: float,
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
    headroom = not proposals or question.objective == "headroom"
    return SearchAnswer(
        space=sum(hunt.size for hunt in hunts.values()) if complete else evaluated,
        evaluated=evaluated,
        feasible=sum(int(c.good.sum()) for hunt in hunts.values() for c in hunt.cloud),
        seconds=time.perf_counter() - begun,
        complete=complete,
        replayed=replayed,
        plans=tuple(proposals),
        frontier=() if best is None else _frontier(question, hunts[best.cluster]),
        bindings=bindings(proposals[0].estimate, beside) if proposals else (),
        neighbours=beside,
        plainer=() if headroom else plainer(beside, proposals[0].estimate.step.seconds),
        nearest=nearest,
        cloud=tuple(mark for hunt in hunts.values() for mark in _marks(hunt)),
        excluded=tuple(mark for hunt in hunts.values() for mark in excluded(hunt)),
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
    """The plan that comes nearest to the limits.

    Where some plan fits, and only the deadline or the budget is missed: the fastest on the
    largest clusters, or the one on the fewest GPUs. Else the one that needs least memory.
    """
    free = dataclasses.replace(question, top=1, deadline=None, budget=None)
    if question.deadline is not None:
        most = max(cluster.gpus for cluster in question.clusters)
        large = tuple(cluster for cluster in question.clusters if cluster.gpus == most)
        tries = [dataclasses.replace(free, objective="time", clusters=large)]
    else:
        tries = [dataclasses.replace(free, objective="gpus")] if question.budget else []
    tries.append(dataclasses.replace(free, objective="headroom", fitting=False))
    for each in tries:
        try:
            found = find_plans(each)
        except InputError:  # a part of the clusters may hold no legal plan
            continue
        if found.plans:
            return found.plans[0]
    return None


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
