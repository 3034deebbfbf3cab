"""A file that nobody has checked, parsed and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Syntax: TypeAlias = Literal["json", "yaml", "toml", "shell", "python"]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A launch file as text and, where it is data, as values.

    Attributes:
        name: the file's name without its folder; ``-`` for stdin.
        syntax: what it is written in.
        text: the whole of it.
        values: its mapping; empty for a script.
        notes: what was assumed in parsing, in sentences.
        folder: where it lies; None: on stdin.
        written: files that a script writes itself, by their names.
    """

    name: str
    syntax: Syntax
    text: str
    values: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    folder: str | None = None
    written: Mapping[str, str] = field(default_factory=dict)

    def has(self, *paths: str) -> bool:
        """Whether every dotted path leads to a key, be its value null."""
        return all(_reaches(self.values, path) for path in paths)

    def any(self, *paths: str) -> bool:
        """Whether one of the dotted paths leads to a key."""
        return any(_reaches(self.values, path) for path in paths)


def _reaches(values: object, path: str) -> bool:
    for part in path.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True
