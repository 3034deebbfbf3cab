"""Knobs of a search as people write them: ``--tp 1,2,4`` and ``--why-not 'tp=16 pp=2'``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tonnage.cli.flags import field_types, plan_changes
from tonnage.cli.values import parse
from tonnage.errors import InputError
from tonnage.plan import Plan

_SETS = ("recompute_modules",)
"""Knobs whose one value is a list."""


def choices_of(knobs: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Values by knob, from lists as people write them (``1,2,4``).

    Raises:
        InputError: a text is no value of its knob.
    """
    hints = field_types()
    found: dict[str, tuple[Any, ...]] = {}
    for name, given in knobs.items():
        if isinstance(given, bool):
            found[name] = (given,)
        elif name == "recompute":
            found.update(_recompute(str(given)))
        elif name in _SETS:
            found[name] = (parse(name, hints[name], given),)
        elif hints[name] is bool:
            found[name] = tuple(_truth(name, item) for item in str(given).split(","))
        else:
            found[name] = tuple(parse(name, hints[name], item) for item in str(given).split(","))
    return found


def wanted_of(text: str) -> dict[str, Any]:
    """The values of ``tp=16 pp=2``, by knob.

    Raises:
        InputError: a word is no knob with a value that a plan can have, or two words say the
            same of one.
    """
    from tonnage.plan.values import check_values
    from tonnage.search import KNOBS

    wanted: dict[str, Any] = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        knob = name.lstrip("-").replace("-", "_")
        if not equals or knob not in KNOBS:
            raise _refused(
                word,
                "is not a knob and its value",
                accepted=f"such as tp=16; knobs are {', '.join(KNOBS)}",
            )
        if knob in wanted:
            raise _refused(word, "is given twice", accepted=f"one value of {knob}")
        if knob not in _SETS and "," in value:
            raise _refused(word, "is a list", accepted=f"one value, such as {knob}=VALUE")
        try:
            found = choices_of({knob: [value] if knob in _SETS else value})
            alone = {name: values[0] for name, values in found.items()}
            check_values(Plan(**alone))
        except InputError as error:
            raise _refused(word, error.problem, accepted=error.accepted) from None
        twice = [name for name in alone if name in wanted]
        if twice:
            raise _refused(word, f"decides {twice[0]}, which is given", accepted="one of the two")
        wanted |= alone
    return wanted


def _words(text: str) -> list[str]:
    """Words by space or semicolon, and by comma where another knob begins after it."""
    return re.split(r"\s*[;\s]\s*|,\s*(?=[\w-]+=)", text.strip()) if text.strip() else [text]


def _refused(word: str, problem: str, *, accepted: str) -> InputError:
    return InputError(field="why_not", value=word, problem=problem, accepted=accepted)


def _recompute(text: str) -> dict[str, tuple[Any, ...]]:
    """``none,every-4``: values of the three fields that say what is recomputed."""
    found: dict[str, list[Any]] = {}
    for word in text.split(","):
        for field, value in plan_changes({"recompute": word}).items():
            values = found.setdefault(field, [])
            if value not in values:
                values.append(value)
    return {field: tuple(values) for field, values in found.items()}


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return word in ("true", "yes", "on", "1")
    raise InputError(field=name, value=text, problem="is neither yes nor no", accepted="yes or no")
