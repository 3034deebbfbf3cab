"""Activation memory against Korthikanti et al., arXiv 2205.05198, section 4 and table 2."""

from __future__ import annotations

import pytest
import sympy

from tests.witness.symbolic import A, B, H, S, T, gpt, setting
from tonnage.ledger import layer_operations, saved_bytes
from tonnage.ledger.layer import layer_input
from tonnage.plan import Plan

LINEAR = S * B * H
SQUARE = A * S**2 * B


def saved(recompute: str = "none", **fields: object) -> sympy.Expr:
    architecture = gpt()
    plan = Plan(attention="eager", recompute=recompute)  # type: ignore[arg-type]
    run = setting(architecture, "megatron-2022", plan, **fields)
    return sympy.expand(saved_bytes(run, layer_operations(run, architecture.layers[0])))


@pytest.mark.parametrize(
    ("recompute", "fields", "formula"),
    [
        ("none", {}, 34 * LINEAR + 5 * SQUARE),
        ("none", {"tp": T}, LINEAR * (10 + 24 / T) + 5 * SQUARE / T),
        ("none", {"tp": T, "sp": True}, (34 * LINEAR + 5 * SQUARE) / T),
        ("selective", {}, 34 * LINEAR),
        ("selective", {"tp": T}, LINEAR * (10 + 24 / T)),
        ("selective", {"tp": T, "sp": True}, 34 * LINEAR / T),
    ],
)
def test_saved_bytes_are_the_published_formula(
    recompute: str, fields: dict[str, object], formula: sympy.Expr
) -> None:
    assert sympy.simplify(saved(recompute, **fields) - formula) == 0


def test_full_recomputation_keeps_the_layer_input() -> None:
    run = setting(gpt(), "megatron-2022", Plan())
    assert layer_input(run).bytes == 2 * LINEAR
