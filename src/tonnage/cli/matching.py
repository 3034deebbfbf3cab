"""Entries of a catalog by part of a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from tonnage.errors import InputError

T = TypeVar("T")

_LONGEST_PATTERN = 100


def matching(
    entries: Iterable[T], pattern: str, names: Callable[[T], Sequence[str]]
) -> tuple[T, ...]:
    """The entries one of whose names holds the pattern.

    Args:
        entries: the catalog.
        pattern: part of a name, in any case; ``*`` and ``?`` stand for anything.
        names: the names of an entry.

    Raises:
        InputError: there is none.
    """
    wanted = f"*{pattern.strip().lower()}*"
    entries = tuple(entries)
    if len(pattern) <= _LONGEST_PATTERN:
        found = tuple(
            entry
            for entry in entries
            if any(fnmatchcase(name.lower(), wanted) for name in names(entry))
        )
        if found:
            return found
    raise InputError(
        field="PATTERN",
        value=pattern,
        problem="matches nothing in the catalog",
        hint="leave it out to see everything",
    )
