"""A column of plans gives, element by element, what each plan gives alone.

Bytes are int64 and equal; FLOPs are float64 in a column and agree to 1e-12.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, HYBRID, MIXTURE, PARALLEL
from tonnage.arch import Architecture
from tonnage.cluster import find_device
from tonnage.ledger import loss_bytes, sequence_flops, stage_ledgers
from tonnage.ledger.data_parallel import data_parallel_collectives
from tonnage.ledger.operation import forward_flops
from tonnage.memory import outside, stage_memory
from tonnage.plan import PRECISIONS, Plan, Setting, optimizer
from tonnage.plan.layout import Stage, stages
from tonnage.runtime import RUNTIMES, with_habits

FIELDS = ("tp", "cp", "ep", "etp", "dp", "shard", "mbs", "grad_acc", "seq")

# One plan a row, in the order of FIELDS.
DENSE_ROWS = (
    (1, 1, 1, 1, 1, 1, 1, 1, 64),
    (2, 1, 1, 1, 4, 4, 1, 4, 64),
    (4, 2, 1, 1, 2, 4, 2, 2, 128),
    (4, 1, 1, 1, 8, 2, 3, 16, 256),
    (1, 4, 1, 1, 3, 12, 4, 1, 512),
)
MOE_ROWS = (
    (1, 1, 1, 1, 1, 1, 1, 1, 64),
    (2, 1, 2, 1, 4, 4, 1, 4, 64),
    (4, 2, 8, 4, 4, 8, 2, 2, 128),
    (4, 1, 4, 2, 8, 2, 3, 16, 256),
    (2, 2, 1, 2, 3, 6, 4, 1, 512),
)


def base(architecture: Architecture, runtime: str, *, zero: int, sp: bool, **more: Any) -> Setting:
    """A setting whose numeric fields are still to be filled."""
    profile = with_habits(RUNTIMES[runtime], more.pop("habits", ()))
    recipe = PRECISIONS[more.pop("precision", profile.precision)]
    plan = Plan(runtime=runtime, sp=sp, zero=zero, **more)
    ones: dict[str, Any] = dict.fromkeys(FIELDS, 1)
    return Setting(
        architecture=architecture,
        plan=plan,
        runtime=profile,
        precision=recipe,
        optimizer=optimizer(plan.optimizer),
        sp=sp,
        zero=zero,
        causal=plan.attention == "flash",
        **ones,
    )


def one(setting: Setting, row: tuple[int, ...]) -> Setting:
    fields: dict[str, Any] = dict(zip(FIELDS, row, strict=True))
    return dataclasses.replace(setting, **fields)


def column(setting: Setting, rows: tuple[tuple[int, ...], ...]) -> Setting:
    columns = np.array(rows, dtype=np.int64).T
    return dataclasses.replace(setting, **dict(zip(FIELDS, columns, strict=True)))


def by_stage(setting: Setting, layout: tuple[Stage, ...]) -> dict[str, list[Any]]:
    """Every figure of every stage."""
    found: dict[str, list[Any]] = {"bytes": [loss_bytes(setting)], "flops": []}
    found["bytes"].append(outside(setting, find_device("H100")).bytes)
    for ledger in stage_ledgers(setting, layout):
        memory = stage_memory(setting, ledger)
        found["bytes"].append(memory.allocated)
        for instant in memory.instants:
            found["bytes"].extend(instant.categories.values())
        for each, times in data_parallel_collectives(setting, ledger):
            found["bytes"].extend((each.bytes, times))
        for operations in (*ledger.layers.values(), ledger.embedding, ledger.head):
            found["flops"].append(forward_flops(operations))
            for op in operations:
                found["flops"].extend((op.flops, op.flops_backward, op.flops_inside))
                found["bytes"].extend(each.bytes for each in op.collectives)
    for causal in (True, False):
        whole = sequence_flops(setting, layout, causal=causal)
        found["flops"].extend((whole.model, whole.hardware))
    return found


CASES: tuple[tuple[Architecture, str, dict[str, Any]], ...] = (
    (DENSE, "megatron", {"zero": 1, "sp": True}),
    (DENSE, "megatron", {"zero": 1, "sp": False, "recompute": "full"}),
    (DENSE, "megatron", {"zero": 0, "sp": True, "pp": 4, "recompute_num_layers": 0}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "pp": 4, "schedule": "gpipe"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "pp": 4, "vpp": 2, "schedule": "interleaved"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "pp": 4, "schedule": "zero-bubble"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "pp": 4, "vpp": 2, "schedule": "dualpipev"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "optimizer": "adam8bit"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "optimizer": "adafactor"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "optimizer": "muon"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "precision": "mxfp8"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "precision": "nvfp4"}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "habits": (("loss", "chunked"),)}),
    (DENSE, "megatron", {"zero": 1, "sp": True, "lora_rank": 4, "lora_base": "nf4"}),
    (DENSE, "fsdp2", {"zero": 3, "sp": True, "lora_rank": 4, "lora_targets": ("q_proj",)}),
    (DENSE, "fsdp2", {"zero": 2, "sp": False, "optimizer_step": "foreach"}),
    (DENSE, "nanotron", {"zero": 0, "sp": True}),
    (DENSE, "nanotron", {"zero": 1, "sp": True, "iteration": "first"}),
    (DENSE, "ddp", {"zero": 0, "sp": False, "attention": "eager"}),
    (DENSE, "deepspeed", {"zero": 3, "sp": False}),
    (DENSE, "deepspeed", {"zero": 2, "sp": False, "recompute": "selective"}),
    (GPT, "megatron-2022", {"zero": 0, "sp": True, "attention": "eager"}),
    (GPT, "megatron-2022", {"zero": 0, "sp": False, "pp": 2, "recompute": "selective"}),
    (
        GPT,
        "megatron",
        {"zero": 1, "sp": True, "recompute": "full", "recompute_method": "block", "pp": 2},
    ),
    (HYBRID, "megatron", {"zero": 1, "sp": True}),
    (HYBRID, "fsdp2", {"zero": 3, "sp": True, "attention": "eager"}),
    (PARALLEL, "megatron", {"zero": 1, "sp": True, "recompute": "full"}),
    (MIXTURE, "megatron", {"zero": 1, "sp": True}),
    (MIXTURE, "megatron", {"zero": 1, "sp": True, "moe_imbalance": 1.3}),
    (
        MIXTURE,
        "megatron",
        {"zero": 1, "sp": True, "recompute": "selective", "recompute_modules": ("moe",)},
    ),
    (MIXTURE, "fsdp2", {"zero": 3, "sp": True, "hsdp_shard": 2}),
    (DEEPSEEK, "megatron", {"zero": 1, "sp": True, "pp": 2}),
    (DEEPSEEK, "megatron", {"zero": 0, "sp": True, "precision": "fp8", "recompute": "full"}),
    (
        DEEPSEEK,
        "megatron",
        {
            "zero": 1,
            "sp": True,
            "recompute": "selective",
            "recompute_modules": ("layernorm", "activation"),
        },
    ),
)


def named(case: tuple[Architecture, str, dict[str, Any]]) -> str:
    architecture, runtime, choices = case
    return " ".join([architecture.name, runtime, *(f"{k}={v}" for k, v in choices.items())])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_column_equals_its_plans(case: tuple[Architecture, str, dict[str, Any]]) -> None:
    architecture, runtime, choices = case
    setting = base(architecture, runtime, **choices)
    rows = MOE_ROWS if architecture.is_moe else DENSE_ROWS
    layout = stages(architecture, setting.plan)
    together = by_stage(column(setting, rows), layout)
    alone = [by_stage(one(setting, row), layout) for row in rows]
    for index, value in enumerate(together["bytes"]):
        expected = [row["bytes"][index] for row in alone]
        assert np.issubdtype(np.asarray(value).dtype, np.integer)
        assert np.broadcast_to(value, len(rows)).tolist() == expected
    for index, value in enumerate(together["flops"]):
        expected = [float(row["flops"][index]) for row in alone]
        np.testing.assert_allclose(np.broadcast_to(value, len(rows)), expected, rtol=1e-12)


def test_a_column_of_a_large_model_does_not_overflow() -> None:
    """A micro-batch of a 405B model: FLOPs of a layer are past 2⁵³, in float64 all the same."""
    from tonnage.arch import catalog

    architecture = catalog.entries()["llama-3.1-405b"].read()
    setting = base(architecture, "megatron", zero=1, sp=True)
    rows = ((1, 1, 1, 1, 8, 8, 64, 8, 131072), (8, 16, 1, 1, 8, 128, 1, 8, 131072))
    layout = stages(architecture, setting.plan)
    together = by_stage(column(setting, rows), layout)
    alone = [by_stage(one(setting, row), layout) for row in rows]
    assert max(row["flops"][0] for row in alone) > 2**53
    for index, value in enumerate(together["flops"]):
        expected = [float(row["flops"][index]) for row in alone]
        np.testing.assert_allclose(np.broadcast_to(value, len(rows)), expected, rtol=1e-12)
    for index, value in enumerate(together["bytes"]):
        expected = [row["bytes"][index] for row in alone]
        assert np.broadcast_to(value, len(rows)).tolist() == expected
