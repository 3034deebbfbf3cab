"""What a question's own fields may hold: a search would take what they lack for a default."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tonnage.errors import InputError


def check_kind(name: str, value: object, kind: type) -> None:
    """Refuse a value that is no instance of the class that a field is of.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, kind):
        raise InputError(
            field=name,
            value=value,
            problem=f"is {type(value).__name__}, and not {kind.__name__}",
            accepted=f"tonnage.search.{kind.__name__}(...)",
        )


def check_choices(choices: object) -> None:
    """Refuse what does not give every knob a list of values.

    Raises:
        InputError: it is no mapping, or a value of it is no list, tuple or range.
    """
    accepted = "values by knob, such as {'tp': (1, 2, 4)}"
    if not isinstance(choices, Mapping):
        problem = "is no mapping"
        raise InputError(field="choices", value=choices, problem=problem, accepted=accepted)
    for name, values in choices.items():
        if not isinstance(values, tuple | list | range):
            problem = "is no list of values"
            raise InputError(field=str(name), value=values, problem=problem, accepted=accepted)


def check_word(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a word that is not among those that are known.

    Raises:
        InputError: it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        accepted = ", ".join(known)
        raise InputError(field=name, value=value, problem="is not known", accepted=accepted)


def check_prices(prices: object) -> None:
    """Refuse what does not give every device a finite price of a GPU-hour, over 0.

    Raises:
        InputError: it is no mapping, or a price of it is none.
    """
    accepted = "money by name of a device, such as {'H100-SXM5-80GB': 2.5}"
    if not isinstance(prices, Mapping):
        problem = "is no mapping"
        raise InputError(field="prices", value=prices, problem=problem, accepted=accepted)
    for device, price in prices.items():
        if not isinstance(device, str) or not _is_number(price) or price <= 0:
            problem, said = "is no price of a device", f"{device}: {price}"
            raise InputError(field="prices", value=said, problem=problem, accepted=accepted)


def check_amount(name: str, value: object, *, least: float, accepted: str) -> None:
    """Refuse what is no finite number, or is less than the least that makes sense.

    Raises:
        InputError: it is none.
    """
    if not _is_number(value):
        raise InputError(field=name, value=value, problem="is no number", accepted=accepted)
    if value < least:  # type: ignore[operator]
        raise InputError(field=name, value=value, problem="is too little", accepted=accepted)


def check_count(name: str, value: object) -> None:
    """Refuse what is no whole number.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        problem = "is no whole number"
        raise InputError(field=name, value=value, problem=problem, accepted="1 or more")


def check_switch(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        InputError: it is neither.
    """
    if not isinstance(value, bool):
        problem = "is neither True nor False"
        raise InputError(field=name, value=value, problem=problem, accepted="True or False")


def _is_number(value: object) -> bool:
    """Whether it is a finite number, and no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < math.inf
