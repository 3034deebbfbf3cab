"""A lone ``-`` means stdin; the parser would take it for a flag without a name."""

from __future__ import annotations

from collections.abc import Iterable

_STDIN = "stdin:"


def hide_hyphens(words: Iterable[str]) -> list[str]:
    """The words with each lone hyphen spelt so that the parser lets it through."""
    return [_STDIN if word == "-" else word for word in words]


def show_hyphen(word: str) -> str:
    """The word as it was written."""
    return "-" if word == _STDIN else word
