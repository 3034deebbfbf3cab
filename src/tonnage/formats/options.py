"""The options that a tool documents, by name: what is none of them is not understood.

A reader takes what decides memory or time, and leaves what is known and not modelled; of the
rest, a name that the tool knows is irrelevant, and any other is reported.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def _table() -> dict[str, frozenset[str]]:
    text = files("tonnage.formats").joinpath("options.json").read_text(encoding="utf-8")
    return {tool: frozenset(entry["names"]) for tool, entry in json.loads(text).items()}


def options(*tools: str) -> tuple[str, ...]:
    """The names of all options of some tools, in order.

    Args:
        tools: by the names of their kinds (``trl``).
    """
    return tuple(sorted(frozenset().union(*(_table()[tool] for tool in tools))))
