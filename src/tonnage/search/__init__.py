"""The space of plans: what fits, what is best, and what one change does."""

from tonnage.search.advice import Advice, advice
from tonnage.search.changes import Change, changes, nearest

__all__ = ["Advice", "Change", "advice", "changes", "nearest"]
