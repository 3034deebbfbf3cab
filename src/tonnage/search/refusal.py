"""Why a plan cannot be: the error of the plan itself, which says more than that there is none."""

from __future__ import annotations

import dataclasses

from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.plan import Plan, resolve
from tonnage.search.question import Question


def refusal(plan: Plan, question: Question, cluster: Cluster) -> InputError | None:
    """The error of one plan on one cluster; None where it is legal."""
    try:
        resolve(plan, question.architecture, cluster)
    except InputError as error:
        return error
    return None


def first_refusal(question: Question) -> InputError | None:
    """The error of the plainest plan of a search: the first value of each knob that it is kept to.

    What the search is not kept to is left to its default.
    """
    values = {knob: values[0] for knob, values in question.choices.items()}
    plan = dataclasses.replace(question.base, **values)
    for cluster in question.clusters:
        error = refusal(plan, question, cluster)
        if error is not None:
            return error
    return None
