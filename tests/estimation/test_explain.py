"""What `explain` says is what `estimate` counts: rows of memory, FLOPs, and the letters in them."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, HYBRID, MIXTURE, cluster
from tonnage.arch import MLP, Architecture
from tonnage.errors import InputError
from tonnage.estimation import Explanation, estimate, explain
from tonnage.memory import CATEGORIES
from tonnage.plan import Plan
from tonnage.quantity import format_bytes, format_flops

NARROW = dataclasses.replace(
    DENSE.layers[0], mlp=MLP(intermediate=96, gated=True, activation="silu")
)
UNLIKE = dataclasses.replace(DENSE, layers=(*DENSE.layers[:3], *[NARROW] * 5))
"""Interleaved chunks of it hold different layers."""

RUNS: dict[str, tuple[Architecture, Plan, int]] = {
    "gpt": (GPT, Plan(seq=128, attention="eager"), 1),
    "stages": (DENSE, Plan(pp=2, seq=128, recompute="full"), 2),
    "zero 3": (DENSE, Plan(runtime="fsdp2", dp=8, seq=128, mbs=3), 8),
    "windowed": (HYBRID, Plan(seq=128), 1),
    "dense": (DENSE, Plan(tp=2, pp=2, dp=2, seq=128, mbs=2), 8),
    "adapters": (DENSE, Plan(tp=2, seq=128, lora_rank=4, lora_base="nf4"), 2),
    "mixture": (MIXTURE, Plan(tp=2, ep=4, etp=1, dp=4, seq=128, optimizer="muon"), 8),
    "latent": (DEEPSEEK, Plan(tp=2, pp=2, ep=2, dp=2, seq=128), 8),
    "rounds": (UNLIKE, Plan(pp=2, vpp=2, seq=128, grad_acc=4), 2),
}

MEMORY = [(name, row) for name in RUNS for row in CATEGORIES]


@pytest.mark.parametrize(("name", "row"), MEMORY)
def test_a_row_of_memory(name: str, row: str) -> None:
    architecture, plan, gpus = RUNS[name]
    answer = estimate(architecture, plan, cluster(gpus))
    stage = answer.memory.stages[-1]
    explained = explain(architecture, plan, cluster(gpus), row, stage=stage.stage)
    assert explained.row == row
    assert explained.total.value == format_bytes(stage.categories[row])
    assert stage.peak_instant in explained.summary
    assert_whole(explained)


def assert_whole(explained: Explanation) -> None:
    """Every symbol is explained, and none is left where the numbers stand."""
    known = {symbol.name for symbol in explained.symbols}
    functions = {"ceil", "min", "max"}
    for line in (*explained.lines, explained.total):
        words = set(re.findall(r"[A-Za-z][A-Za-z_]*'*", line.formula))
        assert words - known <= functions
        assert set(re.findall(r"[A-Za-z][A-Za-z_]*", line.worked)) <= functions


@pytest.mark.parametrize("name", RUNS)
def test_flops(name: str) -> None:
    architecture, plan, gpus = RUNS[name]
    answer = estimate(architecture, plan, cluster(gpus))
    explained = explain(architecture, plan, cluster(gpus), "flops")
    assert explained.total.value == format_flops(answer.flops.per_token * (plan.seq or 0))
    assert len(explained.lines) > 4
    assert_whole(explained)


def test_a_product_in_symbols_and_in_numbers() -> None:
    explained = explain(GPT, Plan(seq=128), cluster(1), "flops")
    line = next(line for line in explained.lines if line.name == "mlp.up")
    assert set(re.findall(r"[a-z]+", line.formula)) == {"f", "h", "s"}
    assert {symbol.name: symbol.value for symbol in explained.symbols}["f"] == 256
    assert math.prod(int(part) for part in re.findall(r"\d+", line.worked)) == (
        8 * 6 * 128 * 64 * 256
    )
    assert line.value == format_flops(8 * 6 * 128 * 64 * 256)


def test_the_stage_that_is_told_is_the_worst() -> None:
    plan = RUNS["stages"][1]
    answer = estimate(DENSE, plan, cluster(2))
    explained = explain(DENSE, plan, cluster(2), "gradients")
    assert f"stage {answer.memory.worst_stage} " in explained.summary


@pytest.mark.parametrize("row", ["", "weights", "Parameters"])
def test_a_row_that_is_none(row: str) -> None:
    with pytest.raises(InputError, match="not a row") as caught:
        explain(DENSE, Plan(), cluster(1), row)
    assert "optimizer_states" in caught.value.accepted


@pytest.mark.parametrize("stage", [-1, 1, 10**9])
def test_a_stage_that_is_none(stage: int) -> None:
    with pytest.raises(InputError, match="not a pipeline stage"):
        explain(DENSE, Plan(seq=64), cluster(1), "activations", stage=stage)
