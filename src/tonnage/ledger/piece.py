"""Pieces of a model, and rules that look at one piece alone.

A piece is the operations that come and go together: one kind of layer, the embedding, the head.
What a rule says of it does not depend on where in the pipeline it lies or how many replicas
there are. So a search, which meets the same pieces in thousands of plans, works such a rule out
once (`tonnage.search.table`), and everything else of an estimate is sums over pieces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from tonnage.algebra import Number, largest, total
from tonnage.ledger.operation import Operation, Operations, Weight, weights_of
from tonnage.plan import Setting

P = ParamSpec("P")
R = TypeVar("R")
Rule = Callable[Concatenate[Setting, Operations, P], R]
Size = Callable[[Setting, Weight], Number]
Pieces: TypeAlias = Sequence[tuple[Operations, int]]
"""Pieces of a stage, and how often it holds each."""


RECOMPUTE: Final = ("recompute", "recompute_modules")
"""What a plan says of recomputation within a layer: few rules of a piece read it."""


class Piece(tuple[Operation, ...]):
    """Operations that answer rules by themselves; read in any other way, they are the first row."""

    def answer(self, rule: Rule[..., Any], ignores: tuple[str, ...], args: tuple[Any, ...]) -> Any:
        """What a rule says of them.

        Args:
            rule: reads a setting and operations.
            ignores: fields of the plan that it does not read.
            args: what it reads beside them; hashable.
        """
        raise NotImplementedError


def by_piece(*ignores: str) -> Callable[[Rule[P, R]], Rule[P, R]]:
    """Mark a rule that looks at one piece.

    Of the setting it may read neither replicas nor micro-batches of a step, and of the plan
    nothing that lays out the pipeline (`tonnage.search.table.OUTSIDE`).

    Args:
        ignores: further fields of the plan that it does not read.
    """

    def decorate(rule: Rule[P, R]) -> Rule[P, R]:
        @functools.wraps(rule)
        def asked(
            setting: Setting, operations: Operations, /, *args: P.args, **named: P.kwargs
        ) -> R:
            if isinstance(operations, Piece):
                found: R = operations.answer(rule, ignores, args)
                return found
            return rule(setting, operations, *args, **named)

        return asked

    return decorate


@by_piece(*RECOMPUTE)
def weight_sums(
    setting: Setting, operations: Operations, size: Size
) -> dict[tuple[str, bool], Number]:
    """A size summed over the weights of a piece, by their group and whether they are adapters."""
    sums: dict[tuple[str, bool], Number] = {}
    for weight in weights_of(operations):
        key = (weight.group, weight.adapter)
        sums[key] = sums.get(key, 0) + size(setting, weight)
    return sums


def sum_of(setting: Setting, operations: Operations, size: Size) -> Number:
    """A size summed over all weights of a piece."""
    return total(weight_sums(setting, operations, size).values())


@by_piece(*RECOMPUTE)
def largest_weight(setting: Setting, operations: Operations, size: Size) -> Number:
    """The largest of a size among the weights of a piece; 0 where it has none."""
    return largest(size(setting, weight) for weight in weights_of(operations))


def trained_numel(_: Setting, weight: Weight) -> Number:
    """Elements of a weight that trains."""
    return weight.numel if weight.trains else 0
