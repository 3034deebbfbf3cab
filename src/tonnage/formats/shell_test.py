"""``[ … ]`` and ``[[ … ]]`` of a script, decided where both sides are known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fnmatch import fnmatchcase

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}


def decide(words: list[str]) -> bool | None:
    """What a test says; None: it looks at a file, or at what the script does not assign.

    Args:
        words: the expanded words, with the brackets.
    """
    inside = [word for word in words[1:] if word not in ("]", "]]")]
    negated = bool(inside) and inside[0] == "!"
    found = _decide(inside[1:] if negated else inside)
    return found if found is None or not negated else not found


def _decide(words: list[str]) -> bool | None:
    if any("$" in word or "`" in word for word in words):
        return None
    match words:
        case ["-z"]:
            return True
        case ["-n"]:
            return False
        case ["-z", word]:
            return not word
        case ["-n", word]:
            return bool(word)
        case [word] if not word.startswith("-"):
            return bool(word)
        case [left, "=" | "==", right]:
            return fnmatchcase(left, right)
        case [left, "!=", right]:
            return not fnmatchcase(left, right)
        case [left, name, right] if name in _NUMBERS and _whole(left) and _whole(right):
            return _NUMBERS[name](int(left), int(right))
    return None


def _whole(word: str) -> bool:
    return word.removeprefix("-").isdigit() and word.isascii() and len(word) < 19
