"""The free text of a measured row's recipe -> fields of a plan, habits, facts of a model.

`tonnage.score.vocabulary` holds the table; this is what applies it. A rule matches part of
a column's text and says what it sets; what no rule takes and no list of harmless words
holds is reported as not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tonnage.score.row import Row
from tonnage.score.vocabulary import HARMLESS, LOOKED_AT, RULES


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a row's words mean.

    Attributes:
        fields: fields of `Plan`.
        habits: habits of the runtime.
        shape: facts of the architecture.
        unknown: words that no rule takes.
        refused: why the row is not answered; empty where it is.
    """

    fields: dict[str, Any]
    habits: dict[str, str]
    shape: dict[str, Any]
    unknown: tuple[str, ...]
    refused: tuple[str, ...]


COLUMNS = tuple(dict.fromkeys(rule.column for rule in RULES))


def read_words(row: Row) -> Reading:
    """Read every recipe column of a row by the table."""
    fields: dict[str, Any] = {}
    habits: dict[str, str] = {}
    shape: dict[str, Any] = {}
    targets = {"habit": habits, "shape": shape}
    unknown: list[str] = []
    refused: list[str] = []
    for column in COLUMNS:
        text = row.text(column)
        for rule in RULES:
            if rule.column != column or not text:
                continue
            while match := re.search(rule.pattern, text):
                if rule.refuses:
                    refused.append(f"{column}: {rule.refuses}")
                for name, value in {**rule.sets, **_captured(match)}.items():
                    where, _, key = name.rpartition(".")
                    targets.get(where, fields).setdefault(key, value)
                text = text[: match.start()] + " ; " + text[match.end() :]
        if column not in LOOKED_AT:
            unknown.extend(f"{column}: {word}" for word in _leftover(text))
    return Reading(
        fields=fields, habits=habits, shape=shape, unknown=tuple(unknown), refused=tuple(refused)
    )


def _captured(match: re.Match[str]) -> dict[str, int | float]:
    """Numbers that a rule names in its pattern (a group's name cannot hold a full stop)."""
    found = {
        name: float(text) if "." in text else int(text)
        for name, text in match.groupdict().items()
        if text is not None
    }
    return {re.sub("^(habit|shape)_", r"\1.", name): value for name, value in found.items()}


def _leftover(text: str) -> list[str]:
    """What the rules left, piece by piece, without words that say nothing."""
    pieces = (piece.strip(" .()[]") for piece in re.split(r"[;,+]", text))
    return [
        piece
        for piece in pieces
        if any(word not in HARMLESS for word in re.findall(r"[a-z0-9_.=/-]{2,}", piece))
    ]
