"""Small expressions in launch files: patterns of layers, and pairs of numbers."""

from __future__ import annotations

import ast
import re

LONGEST = 100_000


def layer_pattern(text: str) -> list[int] | int | None:
    """What Megatron's ``--moe-layer-freq`` and its like say: a number, or a list of numbers.

    Lists are written with brackets, ``+`` and ``*``: ``([0]*3+[1]*11)``. None: it is neither.
    """
    if len(text) > 2000:
        return None
    try:
        found = _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found


def _evaluate(node: ast.expr) -> list[int] | int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < LONGEST:
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        items = [_evaluate(item) for item in node.elts]
        return [item for item in items if isinstance(item, int)]
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return _bounded(left, right)
        if isinstance(node.op, ast.Mult):
            if isinstance(left, int):
                left, right = right, left
            if isinstance(left, list) and isinstance(right, int) and right >= 0:
                return _bounded(*([left] * min(right, LONGEST)))
    raise ValueError


def _bounded(*lists: list[int]) -> list[int]:
    if sum(map(len, lists)) > LONGEST:
        raise ValueError
    return [item for one in lists for item in one]


def numbers_in(text: str) -> tuple[int, ...]:
    """The whole numbers in a text, such as ``(127, 0)``."""
    return tuple(int(number) for number in re.findall(r"-?\d{1,12}", text))
