"""The value of a plan's field from the text of its flag, by the field's type."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Iterable

from tonnage.errors import InputError

_WHOLE = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*")
_MOST_DIGITS = 18
_SUFFIXED = re.compile(r"([0-9.]+)\s*(k|m|g|b|t)i?b?", re.IGNORECASE)


def parse(field: str, hint: object, given: str | Iterable[str] | bool) -> object:
    """The value that a flag's text stands for.

    Args:
        field: the field, for the error.
        hint: the field's type, None apart.
        given: what the parser found: text, or the texts of a flag that may be repeated.

    Raises:
        InputError: the text is no value of the type.
    """
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        text = given.strip()
        if hint is int:
            return whole(field, text)
        return _number(field, text) if hint is float else _word(field, text)
    items = tuple(item.strip() for text in given for item in text.split(","))
    if typing.get_origin(typing.get_args(hint)[0]) is tuple:
        return tuple(_pair(field, item) for item in items)
    return tuple(_word(field, item) for item in items)


def whole(field: str, text: str) -> int:
    """A whole number written out: ``8k`` tokens are 8,000 to one person and 8,192 to another.

    Raises:
        InputError: the text is not just digits.
    """
    if _WHOLE.fullmatch(text) and len(text) <= _MOST_DIGITS:
        return int(text)
    hint = ""
    if _SUFFIXED.fullmatch(text):
        hint = "write the number out: a suffix could be decimal or binary"
    problem = "has too many digits" if _WHOLE.fullmatch(text) else "is not a whole number"
    raise InputError(
        field=field,
        value=text,
        problem=problem,
        accepted="digits, such as 8192 or 8_192",
        hint=hint,
    )


def _number(field: str, text: str) -> float:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    raise InputError(
        field=field, value=text, problem="is not a number", accepted="a number such as 1.25"
    )


def _word(field: str, text: str) -> str:
    if text:
        return text
    raise InputError(field=field, value=text, problem="is empty")


def _pair(field: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals and name.strip() and value.strip():
        return name.strip(), value.strip()
    raise InputError(
        field=field,
        value=text,
        problem="is not a pair",
        accepted="name=value, such as loss=chunked",
    )
