"""FLOPs and elements of an einsum.

A product of two operands costs a multiplication for each combination of all their axes,
and an addition beside it where something is summed: ``2 · ∏ axes``, the convention of
``numpy.einsum_path`` and of every count of matrix products. One operand alone is summed,
at an addition an element, or only copied. Several operands are multiplied two at a time,
in the order with the fewest FLOPs; what is between stays on the chip and moves no bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tonnage.errors import InputError
from tonnage.intensity.pattern import Pattern, parse_pattern
from tonnage.intensity.work import Work, positive_size


def einsum(text: str, sizes: Mapping[str, int]) -> Work:
    """An einsum over axes of given sizes.

    Raises:
        InputError: the pattern is malformed, or a size is missing, superfluous or no size.
    """
    pattern = parse_pattern(text)
    axes = pattern.axes
    for name in sizes:
        if name not in axes:
            raise InputError(
                field=name,
                value=sizes[name],
                problem="is the size of no axis in the pattern",
                accepted=", ".join(axes),
            )
    missing = [axis for axis in axes if axis not in sizes]
    if missing:
        raise InputError(
            field="SIZES",
            value=" ".join(missing),
            problem="has no size" if len(missing) == 1 else "have no size",
            accepted=" ".join(f"{axis}=N" for axis in missing),
        )
    known = {axis: positive_size(axis, sizes[axis]) for axis in axes}
    return Work(
        name=" ".join(text.split()),
        sizes=known,
        flops=einsum_flops(pattern, known),
        reads=tuple(_elements(operand, known) for operand in pattern.operands),
        writes=_elements(pattern.output, known),
        convention=_convention(pattern),
    )


def einsum_flops(pattern: Pattern, sizes: Mapping[str, int]) -> int:
    """FLOPs of an einsum, in its cheapest order of products of two operands.

    A dynamic programme over subsets of the operands: the cheapest way to a subset is the
    cheapest of its two halves, over all ways to cut it in two.
    """
    operands = [frozenset(operand) for operand in pattern.operands]
    if len(operands) == 1:
        return _elements(operands[0], sizes) if operands[0] - set(pattern.output) else 0
    everything = (1 << len(operands)) - 1
    left = [_remaining(mask, operands, pattern) for mask in range(everything + 1)]
    cost: dict[int, int] = {1 << index: 0 for index in range(len(operands))}
    for mask in range(1, everything + 1):
        if mask not in cost:
            cost[mask] = min(
                cost[one] + cost[other] + _product(left[one], left[other], left[mask], sizes)
                for one, other in _halves(mask)
            )
    return cost[everything]


def _halves(mask: int) -> Iterator[tuple[int, int]]:
    """Every way to cut a set in two, once or twice each; both halves are smaller numbers."""
    one = (mask - 1) & mask
    while one:
        yield one, mask ^ one
        one = (one - 1) & mask


def _remaining(mask: int, operands: list[frozenset[str]], pattern: Pattern) -> frozenset[str]:
    """The axes that the product of some operands has: those that are still needed.

    An operand alone has all of its own, summed or not.
    """
    inside = [axes for index, axes in enumerate(operands) if mask >> index & 1]
    outside = [axes for index, axes in enumerate(operands) if not mask >> index & 1]
    if len(inside) == 1:
        return inside[0]
    needed = frozenset(pattern.output).union(*outside)
    return frozenset().union(*inside) & needed


def _product(
    one: frozenset[str], other: frozenset[str], result: frozenset[str], sizes: Mapping[str, int]
) -> int:
    both = one | other
    return (2 if both - result else 1) * _elements(both, sizes)


def _elements(axes: frozenset[str] | tuple[str, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[axis] for axis in axes)


def _convention(pattern: Pattern) -> str:
    summed = set(pattern.axes) - set(pattern.output)
    if len(pattern.operands) == 1:
        return "an addition an element" if summed else "nothing but a copy"
    if len(pattern.operands) > 2:
        return "two operands at a time, in the cheapest order; what is between moves no bytes"
    if summed:
        return "2 FLOP for each combination of all axes: a multiplication and an addition"
    return "a multiplication for each combination of all axes"
