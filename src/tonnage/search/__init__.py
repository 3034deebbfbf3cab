"""The space of plans: what fits, what is best, and what one change does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonnage.search.advice import Advice, advice
from tonnage.search.answer import Binding, Neighbour, Point, Proposal, SearchAnswer
from tonnage.search.changes import TRIFLE, Change, changes, every_change, nearest
from tonnage.search.question import KNOBS, LOOSE, Objective, Question, Ties

if TYPE_CHECKING:
    from tonnage.search.find import find_plans
    from tonnage.search.reasons import Reason, why_not

__all__ = [
    "KNOBS",
    "LOOSE",
    "TRIFLE",
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
    "Ties",
    "advice",
    "changes",
    "every_change",
    "find_plans",
    "nearest",
    "why_not",
]

# What searches works on columns: with the first search comes numpy, which an estimate does without.
_COLUMNS = {
    "find_plans": "tonnage.search.find",
    "Reason": "tonnage.search.reasons",
    "why_not": "tonnage.search.reasons",
}


def __getattr__(name: str) -> Any:
    """Import what works on columns when it is first asked for."""
    if name not in _COLUMNS:
        raise AttributeError(f"module 'tonnage.search' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_COLUMNS[name]), name)
    globals()[name] = value
    return value
