"""Sizes as people write them, read and printed.

Reading is strict and exact: a text is taken as integer arithmetic on its digits, never
through a float, and what could mean two things (``80G`` of bytes, ``5`` for five per
cent) is refused with both readings. Printing is for people: three significant digits
are enough, and what is printed can be read back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tonnage.errors import InputError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

LARGEST = 2**63 - 1
"""Counts and bytes fit in int64, the type of a column of plans."""

_LONGEST_TEXT = 64
_LARGEST_EXPONENT = 40

# `[0-9]` and not `\d`: the latter takes the digits of every script in Unicode.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]+(?:_[0-9]+)*)(?:\.(?P<part>[0-9]+))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,4}))?\s*(?P<unit>[A-Za-zµμ%]*)"
)

_COUNT_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "b": 10**9,
    "g": 10**9,
    "t": 10**12,
    "p": 10**15,
    "e": 10**18,
}
_BYTE_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    "pib": 2**50,
}
# As a ratio of ints: a millisecond is not a binary fraction of a second.
_SECOND_UNITS = {
    name: ratio
    for names, ratio in (
        ("ns", (1, 10**9)),
        ("us µs μs", (1, 10**6)),
        ("ms", (1, 10**3)),
        ("s sec second seconds", (1, 1)),
        ("min minute minutes", (60, 1)),
        ("h hr hour hours", (3600, 1)),
        ("d day days", (86400, 1)),
        ("w week weeks", (7 * 86400, 1)),
    )
    for name in names.split()
}


@dataclass(frozen=True, kw_only=True)
class BytesOrFraction:
    """An amount of memory, either in bytes or as a fraction of a whole not yet known.

    Attributes:
        bytes: the amount in bytes, or None where a fraction was given.
        fraction: the fraction, or None where bytes were given.
    """

    bytes: int | None = None
    fraction: float | None = None

    def of(self, whole: int) -> int:
        """The amount in bytes, the fraction being one of ``whole`` bytes."""
        if self.bytes is not None:
            return self.bytes
        assert self.fraction is not None
        return round(self.fraction * whole)


@dataclass(frozen=True, kw_only=True)
class _Text:
    """A quantity taken apart: the exact ratio ``numerator / denominator``, and a unit."""

    numerator: int
    denominator: int
    unit: str
    has_point: bool

    def times(self, multiple: int, divisor: int = 1) -> tuple[int, int]:
        return self.numerator * multiple, self.denominator * divisor


def parse_count(text: str | int | float, *, field: str, minimum: int = 1) -> int:
    """A whole number as people write it: ``70B``, ``15T``, ``4M``, ``1e12``, ``2_000_000``.

    Suffixes are decimal (K, M, B or G, T, P, E) and ignore case: ``128k`` is 128000.

    Raises:
        InputError: for what is no whole number from ``minimum`` to `LARGEST`.
    """
    accepted = f"a whole number of at least {minimum}, such as 4096, 4M, 70B or 15T"
    taken = _take_apart(text, field=field, accepted=accepted)
    multiple = _COUNT_UNITS.get(taken.unit.lower())
    if multiple is None:
        raise _unknown_unit(text, taken.unit, field=field, accepted=accepted)
    return _whole(text, *taken.times(multiple), minimum=minimum, field=field, accepted=accepted)


def parse_bytes(text: str | int | float, *, field: str, minimum: int = 1) -> int:
    """An amount of memory in bytes: ``80GiB``, ``80GB``, ``512MB``, ``1024``.

    ``GB`` is 10**9 and ``GiB`` 2**30. A bare ``80G`` could be either, and ``80Gb`` is
    80 gigabits to some, so both are refused.

    Raises:
        InputError: for what is no whole number of bytes from ``minimum`` to `LARGEST`.
    """
    accepted = "a whole number of bytes, such as 80GiB, 80GB, 512MB or 1024"
    taken = _take_apart(text, field=field, accepted=accepted)
    unit = taken.unit
    if len(unit) == 1 and unit in "kKmMgGtTpP":
        raise InputError(
            field=field,
            value=text,
            problem=f"could mean {unit.upper()}B (decimal) or {unit.upper()}iB (binary)",
            accepted=accepted,
        )
    if len(unit) > 1 and unit[0].isupper() and unit[-1] == "b":
        raise InputError(
            field=field, value=text, problem=f"is in {unit}, which reads as bits", accepted=accepted
        )
    multiple = _BYTE_UNITS.get(unit.lower())
    if multiple is None:
        raise _unknown_unit(text, unit, field=field, accepted=accepted)
    return _whole(text, *taken.times(multiple), minimum=minimum, field=field, accepted=accepted)


def parse_seconds(text: str | int | float, *, field: str) -> float:
    """A duration in seconds: ``90s``, ``12.5ms``, ``30min``, ``2h``, ``10d``, ``3 weeks``.

    A number without a unit is refused, and so is ``m`` (minutes, or months).

    Raises:
        InputError: for what is no positive duration.
    """
    accepted = "a number with a unit, such as 90s, 30min, 2h or 10d"
    taken = _take_apart(text, field=field, accepted=accepted)
    if not taken.unit:
        raise InputError(field=field, value=text, problem="has no unit", accepted=accepted)
    ratio = _SECOND_UNITS.get(taken.unit.lower())
    if ratio is None:
        raise _unknown_unit(text, taken.unit, field=field, accepted=accepted)
    numerator, denominator = taken.times(*ratio)
    if numerator == 0:
        raise InputError(field=field, value=text, problem="is zero", accepted=accepted)
    return numerator / denominator


def parse_rate(text: str, *, field: str) -> float:
    """Bytes per second: ``50GB/s``, ``3.35TB/s``, ``400Gb/s`` (bits, an eighth of it).

    Raises:
        InputError: for what is no rate over 0.
    """
    amount, slash, unit = text.strip().rpartition("/")
    if not slash or unit.strip() != "s":
        raise InputError(
            field=field,
            value=text,
            problem="is not a rate",
            accepted="a rate, such as 50GB/s or 400Gb/s",
        )
    amount = amount.strip()
    # A small b after a prefix is a bit, as networks are quoted.
    if amount.endswith("b") and amount[-2:-1] in ("M", "G", "T"):
        return parse_bytes(f"{amount[:-1]}B", field=field) / 8
    return float(parse_bytes(amount, field=field))


def parse_fraction(text: str | int | float, *, field: str) -> float:
    """A fraction from 0 to 1: ``5%``, ``0.05``.

    A number without ``%`` is the fraction itself, so ``1`` is all of it and ``5`` an error.

    Raises:
        InputError: for what is no fraction from 0 to 1.
    """
    accepted = "a percentage or a fraction from 0 to 1, such as 5% or 0.05"
    taken = _take_apart(text, field=field, accepted=accepted)
    if taken.unit not in ("", "%"):
        raise _unknown_unit(text, taken.unit, field=field, accepted=accepted)
    numerator, denominator = taken.times(1, 100 if taken.unit else 1)
    if numerator > denominator:
        digits = str(text).strip()
        hint = "" if taken.unit else f"write {digits}% for {digits} per cent"
        raise InputError(
            field=field, value=text, problem="is more than 1", accepted=accepted, hint=hint
        )
    return numerator / denominator


def parse_bytes_or_fraction(text: str | int | float, *, field: str) -> BytesOrFraction:
    """An amount of memory, or a share of it: ``4GiB``, ``1024``, ``5%``, ``0.05``.

    Without a unit a number with a decimal point is a fraction and a whole one is bytes.

    Raises:
        InputError: for what is neither.
    """
    accepted = "bytes or a fraction, such as 4GiB, 5% or 0.05"
    taken = _take_apart(text, field=field, accepted=accepted)
    if taken.unit == "%" or (taken.unit == "" and taken.has_point):
        return BytesOrFraction(fraction=parse_fraction(text, field=field))
    return BytesOrFraction(bytes=parse_bytes(text, field=field, minimum=0))


def _take_apart(text: str | int | float, *, field: str, accepted: str) -> _Text:
    """The number and unit of a text; an InputError that says what is wrong with it."""
    if isinstance(text, int) and abs(text) > 10**_LONGEST_TEXT:
        # `str` of a long int raises by itself, and takes quadratic time before it does.
        raise InputError(field=field, value="a huge number", problem="is too large")
    content = str(text).strip()
    if len(content) > _LONGEST_TEXT:
        problem = f"is longer than {_LONGEST_TEXT} characters"
        raise InputError(field=field, value=content, problem=problem, accepted=accepted)
    match = _QUANTITY.fullmatch(content)
    if match is None:
        problem = _why_no_number(content)
        raise InputError(field=field, value=text, problem=problem, accepted=accepted)
    digits = match["whole"].replace("_", "") + (match["part"] or "")
    exponent = int(match["exponent"] or 0) - len(match["part"] or "")
    if match["sign"] == "-" and int(digits) > 0:
        raise InputError(field=field, value=text, problem="is negative", accepted=accepted)
    if abs(exponent) > _LARGEST_EXPONENT + _LONGEST_TEXT:
        # Guards the power below: 10**9999 would be computed in full and then refused.
        problem = "is too large" if exponent > 0 else "is too small"
        raise InputError(field=field, value=text, problem=problem, accepted=accepted)
    return _Text(
        numerator=int(digits) * 10 ** max(exponent, 0),
        denominator=10 ** max(-exponent, 0),
        unit=match["unit"],
        has_point=match["part"] is not None,
    )


def _why_no_number(content: str) -> str:
    lowered = content.lower().lstrip("+-")
    if not content:
        return "is empty"
    if lowered.startswith(("nan", "inf")):
        return "is not a finite number"
    return "is not a number with an optional unit"


def _unknown_unit(text: object, unit: str, *, field: str, accepted: str) -> InputError:
    problem = f"has an unknown unit, {unit}"
    return InputError(field=field, value=text, problem=problem, accepted=accepted)


def _whole(
    text: object, numerator: int, denominator: int, *, minimum: int, field: str, accepted: str
) -> int:
    """The ratio as an int from ``minimum`` to `LARGEST`, or an InputError."""
    value, remainder = divmod(numerator, denominator)
    if remainder:
        problem = "is not a whole number"
    elif value < minimum:
        problem = "is zero" if value == 0 else f"is less than {minimum}"
    elif value > LARGEST:
        problem = "is too large (the largest is 2**63 - 1)"
    else:
        return value
    raise InputError(field=field, value=text, problem=problem, accepted=accepted)


def format_bytes(count: float) -> str:
    """Memory in GiB (``74.50 GiB``), in MiB, KiB or B where it is small."""
    for size, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        # The threshold is where two decimals of the smaller unit would round up to 1024.
        if abs(count) >= size * (1 - 0.005 / 1024):
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def format_count(count: float) -> str:
    """A number of things to three digits (``8.03 B``); exact below a thousand."""
    if abs(count) < 1000 and count == int(count):
        return str(int(count))
    return _with_prefix(count, ("", "K", "M", "B", "T"))


def format_flops(count: float) -> str:
    """A number of floating-point operations: ``12.3 TFLOP``, and ``6.30e24 FLOP`` past 1e18."""
    if abs(count) >= 1e18:
        return f"{count:.2e} FLOP".replace("e+", "e")
    return _with_prefix(count, ("", "K", "M", "G", "T", "P"), "FLOP")


def format_rate(rate: float, unit: str = "FLOP/s") -> str:
    """A rate to three digits: ``989 TFLOP/s``, ``3350 GB/s``, ``12.3 K tokens/s``.

    Args:
        rate: in ``unit``.
        unit: ``FLOP/s`` and ``B/s`` take SI prefixes (bandwidth stops at GB/s, the unit
            that links are quoted in); any other unit follows a count.
    """
    if unit == "B/s":
        return _with_prefix(rate, ("", "K", "M", "G"), unit)
    if unit == "FLOP/s":
        return _with_prefix(rate, ("", "K", "M", "G", "T", "P", "E"), unit)
    return f"{format_count(rate)} {unit}"


def format_seconds(seconds: float) -> str:
    """A duration to three digits: ``12.3 µs``, ``1.23 s``, ``45.0 min``, ``144 days``."""
    size = abs(seconds)
    if size == 0:
        return "0 s"
    for limit, scale, unit in (
        (1e-6, 1e-9, "ns"),
        (1e-3, 1e-6, "µs"),
        (1.0, 1e-3, "ms"),
        (120.0, 1.0, "s"),
        (2 * 3600.0, 60.0, "min"),
        (2 * 86400.0, 3600.0, "h"),
    ):
        if size < limit * (1 - 5e-4):
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 86400.0)} days"


def format_percent(fraction: float) -> str:
    """A fraction in per cent, to one decimal: ``45.3%``."""
    return f"{100 * fraction:.1f}%"


def _with_prefix(value: float, prefixes: tuple[str, ...], unit: str = "") -> str:
    """The value with the largest SI prefix that leaves at least one digit before the point."""
    power = 0
    # 999.5 has three digits only as 1.00 of the next prefix.
    while power + 1 < len(prefixes) and abs(value) >= 999.5 * 1000**power:
        power += 1
    return f"{_three_digits(value / 1000**power)} {prefixes[power]}{unit}".rstrip()


def _three_digits(value: float) -> str:
    """Three significant digits, never in scientific notation; all digits from a hundred up."""
    size = abs(value)
    return f"{value:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
