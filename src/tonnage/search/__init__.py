"""The space of plans: what fits, what is best, and what one change does."""

from tonnage.search.changes import Change, changes, nearest

__all__ = ["Change", "changes", "nearest"]
