"""Arithmetic that takes ints, numpy arrays and sympy symbols alike.

The ledger is written once and read three ways: ints give one plan's answer, int64
arrays a column of plans, symbols the formula. ``+ - * /`` work on all three by
themselves; what does not (a condition, a maximum, a division that rounds) is here.
numpy and sympy are looked up in ``sys.modules``: a value can only be an array or a
symbol if somebody has already imported them.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Number: TypeAlias = Any
"""An int or float, a numpy array, or a sympy expression."""


_PLAIN = frozenset((int, float))
"""What needs no look at whether it is an array or a symbol; one plan's estimate is all of it."""


def is_array(value: Number) -> bool:
    """Whether the value is a column of plans."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_symbol(value: Number) -> bool:
    """Whether the value is a formula."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(value, sympy.Basic)


def exact_div(numerator: Number, denominator: Number) -> Number:
    """A division that is known to leave no remainder (checked for ints)."""
    if type(numerator) is int and type(denominator) is int:
        quotient, remainder = divmod(numerator, denominator)
        assert remainder == 0, f"{numerator} / {denominator} leaves {remainder}"
        return quotient
    if is_symbol(numerator) or is_symbol(denominator):
        return numerator / denominator
    return numerator // denominator


def ceil_div(numerator: Number, denominator: Number) -> Number:
    """A division rounded up: the size of the largest of ``denominator`` shards."""
    if type(numerator) in _PLAIN and type(denominator) in _PLAIN:
        return -(-numerator // denominator)
    if is_symbol(numerator) or is_symbol(denominator):
        import sympy

        quotient = numerator / denominator
        return quotient if quotient.is_integer else sympy.ceiling(quotient)
    return -(-numerator // denominator)


def round_up(value: Number, multiple: Number) -> Number:
    """The next multiple at or above the value."""
    return ceil_div(value, multiple) * multiple


def minimum(left: Number, right: Number) -> Number:
    """The smaller of two, element by element."""
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return min(left, right)
    return _choose(left, right, array="minimum", symbol="Min", scalar=min)


_VALUES: ContextVar[Mapping[Any, Any] | None] = ContextVar("values", default=None)


@contextmanager
def decided_by(values: Mapping[Any, Any]) -> Iterator[None]:
    """Inside, conditions on symbols and maxima of them take the branch that values decide.

    For explaining one plan: a formula without the branches that the plan does not take.
    """
    token = _VALUES.set(values)
    try:
        yield
    finally:
        _VALUES.reset(token)


def maximum(left: Number, right: Number) -> Number:
    """The larger of two, element by element."""
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return max(left, right)
    values = _VALUES.get()
    if values is not None and (is_symbol(left) or is_symbol(right)):
        return max(left, right, key=lambda side: _valued(side, values))
    return _choose(left, right, array="maximum", symbol="Max", scalar=max)


def where(condition: Number, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``."""
    if is_array(condition):
        import numpy as np

        return np.where(condition, yes, no)
    if is_symbol(condition) and not isinstance(condition, bool):
        import sympy

        values = _VALUES.get()
        if values is not None:
            return yes if condition.xreplace(values) else no

        return sympy.Piecewise((yes, condition), (no, True))
    return yes if condition else no


def is_one(value: Number) -> bool:
    """Whether the value is the plain number 1."""
    return type(value) is int and value == 1


def is_zero(value: Number) -> bool:
    """Whether the value is the plain number 0."""
    return type(value) is int and value == 0


def log2(value: Number) -> Number:
    """The logarithm to the base of two."""
    if is_array(value):
        import numpy as np

        return np.log2(value)
    if is_symbol(value):
        import sympy

        return sympy.log(value, 2)
    return math.log2(value)


def flops_of(value: Number) -> Number:
    """The value as a count of FLOPs: float64 in columns, for a step can be past int64."""
    return value.astype("float64") if is_array(value) else value


def total(values: Iterable[Number]) -> Number:
    """The sum, by plain addition (``sum`` with a name that reads well beside ``maximum``)."""
    result: Number = 0
    for value in values:
        # Adding the plain number 0 to a column is work all the same.
        if type(value) is not int or value:
            result = value if type(result) is int and not result else result + value
    return result


def largest(values: Iterable[Number]) -> Number:
    """The largest of several (0 of none)."""
    result: Number = 0
    for value in values:
        result = maximum(result, value)
    return result


def smallest(values: Iterable[Number]) -> Number:
    """The smallest of several; there must be one."""
    return functools.reduce(minimum, values)


def next_power_of_two(value: Number) -> Number:
    """The next power of two at or above a count (a symbol is taken for one)."""
    if is_symbol(value):
        return value
    if is_array(value):
        import numpy as np

        return 2 ** np.ceil(np.log2(value)).astype("int64")
    return 1 << max(0, int(value) - 1).bit_length()


def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a number, the smallest first."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}))


def sample(value: Number) -> Number:
    """Something hashable that tells two widths apart: of a column, its first element.

    Widths of one model that a column of degrees divides differ everywhere or nowhere.
    """
    return int(value.flat[0]) if is_array(value) else value


def _valued(side: Number, values: Mapping[Any, Any]) -> Number:
    return side.xreplace(values) if is_symbol(side) else side


def _choose(left: Number, right: Number, *, array: str, symbol: str, scalar: Any) -> Number:
    if is_array(left) or is_array(right):
        return getattr(sys.modules["numpy"], array)(left, right)
    if is_symbol(left) or is_symbol(right):
        return getattr(sys.modules["sympy"], symbol)(left, right)
    return scalar(left, right)
