"""Where a model that a file spells out differs from the one that it was written for."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from tonnage.arch import Architecture

_NAMES = frozenset({"name", "family", "source", "max_positions"})
_OF_A_CLASS = frozenset({"one_projection", "softmax_fp32", "router_fp32", "indexer"})
"""Habits of a class in transformers, which a trainer of its own does not share."""
_OF_A_PLAN = frozenset({"mtp", "mtp_layers"})
"""Multi-token prediction trains where the plan says so."""


def differences(
    ours: Architecture, theirs: Architecture, explained: Collection[str] = ()
) -> tuple[str, ...]:
    """What differs, in words: each field once, with both its values.

    Args:
        ours: what is meant.
        theirs: what a file says.
        explained: names of fields that have been spoken of already; ``*`` for all.

    A constant that is not known on one of the sides is none.
    """
    if "*" in explained:
        return ()
    skipped = _NAMES | _OF_A_CLASS | _OF_A_PLAN | frozenset(explained)
    found: dict[str, str] = {}
    for path, mine, other in _walk(ours, theirs, ""):
        parts = path.split(".")
        unknown = "constants" in parts and (mine is None or other is None)
        if not skipped.intersection(parts) and not unknown:
            found.setdefault(path, f"{path} {_shown(mine)}, written as {_shown(other)}")
    return tuple(found.values())


def _walk(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if ours == theirs:
        return
    if isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs):
        for mine, other in dict.fromkeys(zip(ours, theirs, strict=True)):
            yield from _walk(mine, other, path)
    elif dataclasses.is_dataclass(ours) and type(ours) is type(theirs):
        for field in dataclasses.fields(ours):
            inner = f"{path}.{field.name}" if path else field.name
            yield from _walk(getattr(ours, field.name), getattr(theirs, field.name), inner)
    else:
        yield path, ours, theirs


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} of them"
    if dataclasses.is_dataclass(value):
        return type(value).__name__
    return str(value)
