"""Bytes a parameter of every recipe, and optimizer states worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.plan.strategies import DENSE, GPT, HIDDEN, MIXTURE, cluster
from tonnage.algebra import total
from tonnage.ledger import Weight, stage_ledgers, whole
from tonnage.ledger.optimizer import state_bytes
from tonnage.ledger.quantized import stored as quantised
from tonnage.memory.states import parameter_bytes, states
from tonnage.plan import OPTIMIZERS, PRECISIONS, Plan, Setting, optimizer, resolve
from tonnage.plan.precision import bytes_per_parameter

# Weights, gradients, accumulation buffer, master, two moments.
BYTES = {
    "fp32": 4 + 4 + 8,
    "tf32": 4 + 4 + 8,
    "fp16-mixed": 2 + 2 + 4 + 8,
    "fp16-mixed-fp32-grads": 2 + 4 + 4 + 8,
    "fp16-no-master": 2 + 2 + 8,
    "fp16-amp": 4 + 4 + 8,
    "bf16-mixed": 2 + 4 + 4 + 8,
    "bf16-mixed-bf16-grads": 2 + 2 + 4 + 8,
    "bf16-mixed-accumulate": 2 + 2 + 4 + 4 + 8,
    "bf16-no-master": 2 + 2 + 8,
    "bf16-no-master-fp32-grads": 2 + 4 + 8,
    "bf16-amp": 4 + 4 + 8,
    "bf16": 2 + 2 + 4,
    "fp8": 2 + 4 + 4 + 8,
    "fp8-amp": 4 + 4 + 8,
    "mxfp8-amp": 4 + 4 + 8,
    "nvfp4-amp": 4 + 4 + 8,
    "mxfp8": 2 + 4 + 4 + 8,
    "nvfp4": 2 + 4 + 4 + 8,
}


def test_each_recipe_has_its_bytes_a_parameter() -> None:
    assert {name: bytes_per_parameter(recipe) for name, recipe in PRECISIONS.items()} == BYTES
    assert set(BYTES.values()) == {8, 12, 14, 16, 18, 20}


@pytest.mark.parametrize("name", [n for n, r in PRECISIONS.items() if not r.quantized])
def test_the_ledger_holds_what_the_napkin_counts(name: str) -> None:
    plan = Plan(precision=name, zero=0, seq=64)
    resolved = resolve(plan, DENSE, cluster(1))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    held = states(resolved.setting, ledger)
    numel = total(count * weight.numel for weight, count in ledger.weights())
    each = dataclasses.astuple(held)
    assert sum(each) == BYTES[name] * numel
    recipe = PRECISIONS[name]
    assert (held.master_weights > 0) == (recipe.master is not None)


@pytest.mark.parametrize(
    ("name", "narrow"), [("fp8", 2.0), ("mxfp8", 2 * 33 / 32), ("nvfp4", 1.125)]
)
def test_narrow_recipes_cache_a_weight_and_its_transpose(name: str, narrow: float) -> None:
    """Elements of 8, 8 and 4 bits, and a byte of scale for 32 and for 16 of them."""
    run = setting(precision=name)
    weight = Weight(name="w", shape=(64, 128), narrow=True)
    assert parameter_bytes(run, weight) == 64 * 128 * (2 + narrow)
    assert parameter_bytes(run, dataclasses.replace(weight, narrow=False)) == 64 * 128 * 2


def setting(precision: str = "bf16-mixed", name: str = "adamw", **plan: Any) -> Setting:
    return dataclasses.replace(
        whole(DENSE, Plan(**plan)), precision=PRECISIONS[precision], optimizer=optimizer(name)
    )


MATRIX = Weight(name="matrix", shape=(96, 160))
VECTOR = Weight(name="vector", shape=(96,))
TABLE = Weight(name="table", shape=(1000, 96), embedding=True)
EXPERTS = Weight(name="experts", shape=(96, 40), copies=4, group="expert")
SMALL = Weight(name="small", shape=(63, 65))  # 4,095 elements

# Bytes of MATRIX, VECTOR, TABLE, EXPERTS and SMALL with fp32 moments.
STATES: dict[str, tuple[int, int, int, int, int]] = {
    "sgd": (0, 0, 0, 0, 0),
    "momentum": (4 * 15360, 4 * 96, 4 * 96000, 4 * 15360, 4 * 4095),
    "adagrad": (4 * 15360, 4 * 96, 4 * 96000, 4 * 15360, 4 * 4095),
    "rmsprop": (4 * 15360, 4 * 96, 4 * 96000, 4 * 15360, 4 * 4095),
    "lion": (4 * 15360, 4 * 96, 4 * 96000, 4 * 15360, 4 * 4095),
    "adam": (8 * 15360, 8 * 96, 8 * 96000, 8 * 15360, 8 * 4095),
    "adamw": (8 * 15360, 8 * 96, 8 * 96000, 8 * 15360, 8 * 4095),
    # A row and a column of a matrix, a whole vector; of each expert its own.
    "adafactor": (4 * 256, 4 * 96, 4 * 1096, 4 * 4 * 136, 4 * 128),
    # One momentum for hidden matrices, two moments for vectors and tables.
    "muon": (4 * 15360, 8 * 96, 8 * 96000, 4 * 15360, 4 * 4095),
    # 15,360 elements are 60 blocks of 256; 96,000 are 375.
    "adam8bit": (
        2 * (15360 + 4 * 60),
        8 * 96,
        2 * (96000 + 4 * 375),
        2 * (15360 + 4 * 60),
        8 * 4095,
    ),
    # States of 100,000 elements and more are managed memory: none of these is so large.
    "pagedadam8bit": (
        2 * (15360 + 4 * 60),
        8 * 96,
        2 * (96000 + 4 * 375),
        2 * (15360 + 4 * 60),
        8 * 4095,
    ),
    "pagedadamw": (8 * 15360, 8 * 96, 8 * 96000, 8 * 15360, 8 * 4095),
}


def test_every_optimizer_is_worked_out() -> None:
    assert set(STATES) == set(OPTIMIZERS)


@pytest.mark.parametrize("name", STATES)
def test_states_by_hand(name: str) -> None:
    run = setting(name=name)
    weights = (MATRIX, VECTOR, TABLE, EXPERTS, SMALL)
    assert tuple(state_bytes(run, weight) for weight in weights) == STATES[name]


@pytest.mark.parametrize("name", STATES)
def test_a_frozen_weight_has_no_state(name: str) -> None:
    frozen = dataclasses.replace(MATRIX, trains=False)
    assert state_bytes(setting(name=name), frozen) == 0


def test_moments_follow_their_format() -> None:
    assert state_bytes(setting("bf16"), MATRIX) == 2 * 2 * 15360


@pytest.mark.parametrize("name", ["pagedadam8bit", "pagedadamw"])
def test_paged_states_of_large_tensors_are_not_the_allocators(name: str) -> None:
    large = Weight(name="w", shape=(1000, 100))
    assert state_bytes(setting(name=name), large) == 0


def test_eight_bit_adam_begins_at_4096_elements() -> None:
    run = setting(name="adam8bit")
    assert state_bytes(run, Weight(name="w", shape=(64, 64))) == 2 * (4096 + 16 * 4)


def test_qlora_stores_nine_sixteenths_of_a_byte() -> None:
    """NF4: half a byte, and an fp32 scale for 64 (arXiv 2305.14314, before double quantisation)."""
    plan = Plan(runtime="transformers", lora_rank=4, lora_base="nf4", seq=64, zero=0)
    resolved = resolve(plan, DENSE, cluster(1))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    base = [(w, n) for w, n in ledger.weights() if w.base]
    stored = sum(n * _stored_bytes("nf4", w) for w, n in base)
    numel = sum(n * w.numel for w, n in base)
    layer = HIDDEN * (128 + 64 + 64 + 128 + 3 * 160)
    assert numel == len(DENSE.layers) * layer
    assert stored == numel * 0.5625
    whole_bytes = states(resolved.setting, ledger)
    adapters = sum(n * w.numel for w, n in ledger.weights() if w.trains)
    kept = sum(n * w.numel for w, n in ledger.weights() if not w.trains and not w.base)
    # What is not quantised stays in 16 bits, and PEFT makes adapters in fp32.
    assert whole_bytes.parameters == stored + 2 * kept + 4 * adapters
    assert whole_bytes.gradients == 4 * adapters
    assert whole_bytes.master_weights == 0
    assert whole_bytes.optimizer_states == 8 * adapters


def _stored_bytes(base: str, weight: Weight) -> int:
    found = quantised(base, weight)
    return int(found.packed + found.beside)


@pytest.mark.parametrize(
    ("base", "packed", "beside"),
    [
        # 4096 rows in, 1024 columns out: 65,536 blocks of 64, 256 of 256 blocks.
        ("nf4", 2**21, 4 * 2**16),
        ("nf4-dq", 2**21, 2**16 + 4 * 2**8),
        ("int8", 2**22, 4 * 1024),
        # 32 groups of 128 inputs: half a byte of zero point and two of scale; an index a row.
        ("gptq4-g128", 2**21 + 32 * 1024 // 2, 2 * 32 * 1024 + 4 * 4096),
        ("gptq4", 2**21 + 1024 // 2, 2 * 1024 + 4 * 4096),
    ],
)
def test_quantised_bases_by_hand(base: str, packed: int, beside: int) -> None:
    found = quantised(base, Weight(name="w", shape=(4096, 1024), trains=False, base=True))
    assert (found.packed, found.beside) == (packed, beside)


def test_int8_base_is_a_byte() -> None:
    run = setting(lora_rank=4, lora_base="int8")
    frozen = dataclasses.replace(MATRIX, trains=False, base=True)
    assert parameter_bytes(run, frozen) == 15360


@pytest.mark.parametrize("shard", [1, 3, 7, 8])
def test_zero_divides_dense_and_expert_states_each_by_their_own_shards(shard: int) -> None:
    plan = Plan(ep=2, zero=1, dp=8, seq=64)
    resolved = resolve(plan, MIXTURE, cluster(8))
    run = dataclasses.replace(resolved.setting, dp=2 * shard, shard=2 * shard)
    (ledger,) = stage_ledgers(run, resolved.stages)
    sums = {
        group: sum(n * w.numel for w, n in ledger.weights() if w.group == group)
        for group in ("dense", "expert")
    }
    held = states(run, ledger)
    expected = -(-8 * sums["dense"] // (2 * shard)) + -(-8 * sums["expert"] // shard)
    assert held.optimizer_states == expected
    assert held.parameters == 2 * (sums["dense"] + sums["expert"])


def test_the_first_step_has_no_moments_before_its_end() -> None:
    from tonnage.memory import stage_memory

    for iteration, before in (("first", False), ("steady", True)):
        plan = Plan(seq=64, iteration=iteration)  # type: ignore[arg-type]
        resolved = resolve(plan, GPT, cluster(1))
        (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
        moments = {
            i.when: i.categories["optimizer_states"] > 0
            for i in stage_memory(resolved.setting, ledger).instants
        }
        assert moments.pop("optimizer step")
        assert set(moments.values()) == {before}
