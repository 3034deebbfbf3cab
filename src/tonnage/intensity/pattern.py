"""The pattern of an einsum, as einops writes it: ``batch m k, batch k n -> batch m n``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tonnage.errors import InputError

MOST_OPERANDS = 8
"""More are refused: finding the cheapest order of n products takes 3**n steps."""

_LONGEST = 1000
_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACCEPTED = "axes by name, operands apart by commas: m k, k n -> m n"


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """An einsum's axes.

    Attributes:
        operands: the axes of each operand.
        output: the axes of the output; those of the operands that it lacks are summed over.
    """

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis once, in the order in which they are first named."""
        return tuple(dict.fromkeys(axis for operand in self.operands for axis in operand))


def parse_pattern(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        InputError: it is malformed, an axis stands twice in one tensor, or the output has an
            axis that no operand has.
    """
    if len(text) > _LONGEST:
        raise _refusal(text, f"is longer than {_LONGEST} characters")
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right:
        raise _refusal(text, "needs one ->")
    if "," in right:
        raise _refusal(text, "has more than one output")
    operands = tuple(_axes(part, text) for part in left.split(","))
    if not all(operands):
        raise _refusal(text, "has an operand without axes")
    if len(operands) > MOST_OPERANDS:
        raise _refusal(text, f"has more than {MOST_OPERANDS} operands")
    found = Pattern(operands=operands, output=_axes(right, text))
    lost = [axis for axis in found.output if axis not in found.axes]
    if lost:
        raise _refusal(
            text,
            f"has an output axis that no operand has, {lost[0]}",
            "b q d are three axes, bqd one",
        )
    return found


def _axes(part: str, text: str) -> tuple[str, ...]:
    axes = tuple(part.split())
    for axis in axes:
        if not _AXIS.fullmatch(axis):
            raise _refusal(text, f"has {axis!r} where the name of an axis should be")
        if axes.count(axis) > 1:
            raise _refusal(text, f"has the axis {axis} twice in one tensor")
    return axes


def _refusal(text: str, problem: str, hint: str = "") -> InputError:
    return InputError(field="OPERATION", value=text, problem=problem, accepted=_ACCEPTED, hint=hint)
