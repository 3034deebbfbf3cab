"""One rule of the vocabulary: a piece of text, and what it sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a piece of text means.

    Attributes:
        column: the column it stands in.
        pattern: the text, as a regular expression.
        sets: what it sets, by name.
        refuses: why a row that says so is not answered.
    """

    column: str
    pattern: str
    sets: dict[str, Any] = field(default_factory=dict)
    refuses: str = ""


def rule(column: str, pattern: str, **sets: Any) -> Rule:
    """A rule that sets fields, habits (``habit_``) and facts of the shape (``shape_``)."""
    named = {
        name.replace("habit_", "habit.").replace("shape_", "shape."): value
        for name, value in sets.items()
    }
    return Rule(column=column, pattern=pattern, sets=named)


def refuse(column: str, pattern: str, why: str) -> Rule:
    """A rule that says why a row is not answered."""
    return Rule(column=column, pattern=pattern, refuses=why)
