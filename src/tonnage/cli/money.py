"""Money as people write it: ``2.50``, ``$2M``; and the price of a GPU-hour, by device or of all."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tonnage.errors import InputError

DEAREST = 1e15
"""No GPU-hour or run costs more: a typing error, and a bound on the arithmetic."""

_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}
_PRICES = "2.5, or by device: H100=2.5,B200=6"


def parse_money(text: str, *, field: str) -> float:
    """An amount over 0 in any currency: ``2.5``, ``$2.50``, ``2M``.

    Raises:
        InputError: the text is none.
    """
    number = text.strip().lstrip("$€£")
    scale = _UNITS.get(number[-1:].lower(), 1.0)
    digits = number[:-1] if scale > 1 else number
    try:
        value = float(digits) * scale if digits.isascii() else math.nan
    except ValueError:
        value = math.nan
    if 0 < value <= DEAREST:
        return value
    problem = "is no amount of money"
    if not math.isnan(value):
        problem = "is not over 0" if value <= 0 else "is over 1e15"
    raise InputError(field=field, value=text, problem=problem, accepted="such as 2.50 or 2M")


def parse_prices(text: str | None) -> dict[str, float]:
    """Money for a GPU-hour, by the name that the catalog has for a device.

    Args:
        text: one price, or a list such as ``H100=2.5,B200=6``; None: there is none.

    Returns:
        Prices by device; ``""`` is every device that is not named.

    Raises:
        InputError: it is no such list, or prices a device twice.
    """
    from tonnage.cluster import find_device

    prices: dict[str, float] = {}
    for item in () if text is None else text.split(","):
        name, named, price = item.rpartition("=")
        device = find_device(name.strip(), field="price").name if named else ""
        if device in prices:
            raise InputError(
                field="price",
                value=text,
                problem=f"prices {device or 'every device'} twice",
                accepted=_PRICES,
            )
        prices[device] = parse_money(price, field="price")
    return prices


def price_of(prices: Mapping[str, float], device: str) -> float | None:
    """The price of one device; None where there are no prices.

    Raises:
        InputError: others have a price, and it has none.
    """
    if not prices:
        return None
    found = prices.get(device, prices.get(""))
    if found is None:
        raise InputError(
            field="price",
            value=", ".join(prices),
            problem=f"is priced, and {device} is not",
            accepted=_PRICES,
        )
    return found
