"""The space of plans: what fits, what is best, and what one change does."""

from tonnage.search.advice import Advice, advice
from tonnage.search.answer import Binding, Neighbour, Point, Proposal, SearchAnswer
from tonnage.search.changes import Change, changes, nearest
from tonnage.search.find import find_plans
from tonnage.search.question import KNOBS, Objective, Question
from tonnage.search.why_not import Reason, why_not

__all__ = [
    "KNOBS",
    "Advice",
    "Binding",
    "Change",
    "Neighbour",
    "Objective",
    "Point",
    "Proposal",
    "Question",
    "Reason",
    "SearchAnswer",
    "advice",
    "changes",
    "find_plans",
    "nearest",
    "why_not",
]
