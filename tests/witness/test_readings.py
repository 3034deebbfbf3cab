"""The newer kinds of layers read three ways: one number, a column, a formula."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy

from tonnage.arch import Layer, load
from tonnage.estimation.symbols import Symbols, symbolic_setting
from tonnage.ledger import layer_operations, saved_bytes, whole
from tonnage.ledger.operation import forward_flops
from tonnage.plan import Plan, Setting
from tonnage.runtime import RUNTIMES

MODELS = (
    "bert-base",
    "deepseek-v4-flash",
    "gemma-4-26b-a4b",
    "glm-5.2",
    "gpt-oss-20b",
    "llama-4-scout",
    "mimo-v2-flash",
    "minimax-m3",
    "olmo-2-7b",
    "step-3.7-flash",
)


def read(setting: Setting, layer: Layer) -> tuple[object, object]:
    operations = layer_operations(setting, layer)
    return saved_bytes(setting, operations), forward_flops(operations)


@pytest.mark.parametrize("kernel", ["flash", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_three_readings_agree(name: str, kernel: str) -> None:
    model = load(name)
    plan = Plan(attention=kernel)  # type: ignore[arg-type]
    run = dataclasses.replace(whole(model, plan, seq=4096), runtime=RUNTIMES["megatron"])
    column = dataclasses.replace(run, seq=np.array([2048, 4096]), mbs=np.array([2, 1]))
    symbols = Symbols(sympy)
    formula = symbolic_setting(run, symbols)
    values = {
        sympy.Symbol(name, positive=True, integer=True): symbol.value
        for name, symbol in symbols.table.items()
    }
    for layer, symbolic in zip(model.kinds(), formula.architecture.kinds(), strict=True):
        number = read(run, layer)
        assert [np.atleast_1d(np.asarray(part))[-1] for part in read(column, layer)] == [*number]
        parts = [sympy.sympify(part).subs(values) for part in read(formula, symbolic)]
        assert parts == [*number]
