"""What sharding engines, losses and checkpoints of the PyTorch stacks hold, worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.plan.strategies import DENSE, HIDDEN, LAYERS, cluster
from tonnage.algebra import total
from tonnage.errors import InputError, NotModelledError
from tonnage.ledger import StageLedger, loss_bytes, saved_bytes, stage_ledgers, weights_of
from tonnage.memory import stage_memory
from tonnage.memory.activations import retained
from tonnage.memory.casts import cached_casts
from tonnage.memory.gathered import gathered
from tonnage.memory.states import states
from tonnage.memory.workspace import workspaces
from tonnage.plan import Plan, Setting, resolve

VOCAB = DENSE.vocab


def run(gpus: int = 1, **plan: Any) -> tuple[Setting, StageLedger]:
    resolved = resolve(Plan(seq=64, **plan), DENSE, cluster(gpus))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    return resolved.setting, ledger


def numel(ledger: StageLedger, *, trains: bool) -> int:
    return int(total(n * w.numel for w, n in ledger.weights() if w.trains == trains))


def instants(gpus: int = 1, **plan: Any) -> dict[str, int]:
    setting, ledger = run(gpus, **plan)
    return {i.when: int(i.allocated) for i in stage_memory(setting, ledger).instants}


# Bytes for each logit: e is 2.
LOSSES = {
    "eager": 12,
    "eager-held": 14,
    "upcast-in-place": 8,
    "upcast-in-place-held": 10,
    "eager-narrow": 8,
    "eager-narrow-held": 8,
    "narrow-in-place": 6,
    "narrow-in-place-held": 6,
    "upcast-in-chunks": 8,
    "compiled": 4,
    "chunked": 2.75,
    "chunked-compiled": 2.25,
}


@pytest.mark.parametrize("rule", LOSSES)
def test_bytes_of_a_logit(rule: str) -> None:
    setting, _ = run(runtime="torchtune", loss=rule)
    assert loss_bytes(setting) == LOSSES[rule] * 64 * VOCAB


def test_autocast_makes_narrow_losses_wide() -> None:
    found = {}
    for rule in ("eager-narrow", "eager-narrow-held", "narrow-in-place"):
        setting, _ = run(runtime="transformers", loss=rule)
        found[rule] = loss_bytes(setting) / (64 * VOCAB)
    assert found == {"eager-narrow": 12, "eager-narrow-held": 18, "narrow-in-place": 8}


def test_a_fused_linear_loss_works_through_chunks() -> None:
    """64 tokens over ceil(1000 / 64) = 16 pieces: 4 at a time."""
    setting, _ = run(runtime="torchtune", loss="linear")
    assert loss_bytes(setting) == 2 * (2 * 4 * VOCAB + 64 * HIDDEN) + 2 * VOCAB * HIDDEN


def test_one_device_steps_with_ten_bytes_a_parameter() -> None:
    """Pure bf16: weights, gradients, two moments, and foreach's square roots."""
    setting, ledger = run(runtime="transformers", precision="bf16")
    peak = instants(runtime="transformers", precision="bf16")["optimizer step"]
    assert setting.runtime.optimizer_step == "foreach"
    assert peak == 10 * numel(ledger, trains=True) + workspaces(setting, ledger)


def test_adapters_are_stored_in_fp32_beside_a_narrow_base() -> None:
    setting, ledger = run(runtime="transformers", precision="bf16", lora_rank=4)
    held = states(setting, ledger)
    adapters, base = numel(ledger, trains=True), numel(ledger, trains=False)
    assert held.parameters == 2 * base + 4 * adapters
    assert (held.gradients, held.optimizer_states) == (4 * adapters, 8 * adapters)


def test_only_packed_weights_are_sharded() -> None:
    plan: dict[str, Any] = {"runtime": "accelerate", "precision": "bf16", "lora_rank": 4}
    whole, alone = run(1, lora_base="nf4", **plan)
    shared, ledger = run(4, lora_base="nf4", **plan)
    base = sum(n * w.numel for w, n in ledger.weights() if w.base)
    scales = base // 64 * 4
    before, after = states(whole, alone).parameters, states(shared, ledger).parameters
    assert after == scales + -(-(before - scales) // 4)


def test_the_root_of_fsdp1_stays_whole_beside_one_layer() -> None:
    setting, ledger = run(4, runtime="accelerate", recompute="full")
    root = 2 * int(
        total(w.numel for w in (*weights_of(ledger.embedding), *weights_of(ledger.head)))
    )
    (layer,) = ledger.layers.values()
    unit = 2 * int(total(w.numel for w in weights_of(layer)))
    found = gathered(setting, ledger)
    assert (found.layers, found.loss, found.end) == (root + unit, root, root)


@pytest.mark.parametrize("adapters", [True, False])
def test_reentrant_checkpoints_around_frozen_units_are_retained(adapters: bool) -> None:
    """Inputs of all layers but the first, and gradients of all but the first two."""
    setting, ledger = run(
        4,
        runtime="accelerate",
        habits=(("rebuilt_output", "true"),),
        precision="bf16",
        recompute="full",
        lora_rank=4 if adapters else None,
    )
    stream = 2 * 64 * HIDDEN
    assert retained(setting, ledger) == (2 * LAYERS - 3) * stream * adapters


def test_autocast_caches_the_casts_of_adapters_until_the_loss() -> None:
    for kernel, each in (("modules", 2), ("fused", 0)):
        setting, ledger = run(
            runtime="transformers",
            habits=(("adapter_kernel", kernel),),
            precision="bf16",
            recompute="full",
            lora_rank=4,
        )
        assert cached_casts(setting, ledger) == each * numel(ledger, trains=True)


def test_per_operation_checkpoints_keep_every_second_product() -> None:
    """Input, q, v, the context and its log-sum-exp, gate and down; k, o and up are made again."""
    setting, ledger = run(8, runtime="fsdp2", recompute="selective", recompute_modules=("outputs",))
    (operations,) = ledger.layers.values()
    query, key, wide = 128, 64, 160
    numbers = HIDDEN + query + key + query + wide + HIDDEN
    assert saved_bytes(setting, operations) == 64 * (2 * numbers + 4 * 8)


def test_every_second_layer_is_rebuilt() -> None:
    held = {}
    for modules in (("every-second-layer",), None):
        recompute = "selective" if modules else "none"
        setting, ledger = run(
            8,
            runtime="fsdp2",
            recompute=recompute,
            **({"recompute_modules": modules} if modules else {}),
        )
        forward = stage_memory(setting, ledger).instants[0]
        held[recompute] = int(forward.categories["activations"])
        (operations,) = ledger.layers.values()
        layer = int(saved_bytes(setting, operations))
    dropped = LAYERS // 2 * (layer - 2 * 64 * HIDDEN)
    assert held["none"] - held["selective"] == dropped


def test_an_optimizer_in_backward_holds_no_gradients() -> None:
    plan: dict[str, Any] = {"runtime": "torchtune", "optimizer": "pagedadam8bit"}
    setting, ledger = run(optimizer_in_backward=True, **plan)
    assert states(setting, ledger).gradients == 0
    assert (
        instants(optimizer_in_backward=True, **plan)["optimizer step"]
        < instants(**plan)["optimizer step"]
    )
    with pytest.raises(InputError, match="leaves no gradients to sum"):
        run(optimizer_in_backward=True, grad_acc=2, **plan)


def test_saved_modules_are_copies_that_train() -> None:
    plan: dict[str, Any] = {"runtime": "transformers", "precision": "bf16", "lora_rank": 4}
    _, without = run(**plan)
    _, with_both = run(lora_saved=("embedding", "head"), **plan)
    table = VOCAB * HIDDEN
    assert numel(with_both, trains=True) - numel(without, trains=True) == 2 * table
    assert numel(with_both, trains=False) == numel(without, trains=False)
    with pytest.raises(InputError, match="needs adapters"):
        run(runtime="transformers", lora_saved=("head",))


def test_a_pipeline_of_fully_shard_keeps_its_stage_whole() -> None:
    """Parameters in 16 bits and gradients in fp32, whole, from micro-batch to micro-batch."""
    resolved = resolve(Plan(runtime="fsdp2", pp=2, grad_acc=4, seq=64), DENSE, cluster(8))
    ledger = stage_ledgers(resolved.setting, resolved.stages)[0]
    everything = numel(ledger, trains=True)
    assert gathered(resolved.setting, ledger).loss == 2 * everything
    first = {i.when: i for i in stage_memory(resolved.setting, ledger).instants}["forward"]
    assert first.categories["gradients"] == 4 * everything


def test_columns_of_replicas_equal_plans_one_by_one() -> None:
    numpy = pytest.importorskip("numpy")
    plan = Plan(runtime="accelerate", recompute="full", seq=64)
    column = numpy.array([2, 4, 8], dtype="int64")
    resolved = resolve(plan, DENSE, cluster(2))
    wide = dataclasses.replace(resolved.setting, dp=column, shard=column)
    (ledger,) = stage_ledgers(wide, resolved.stages)
    together = stage_memory(wide, ledger).allocated
    for position, gpus in enumerate((2, 4, 8)):
        setting, alone = run(gpus, runtime="accelerate", recompute="full")
        assert stage_memory(setting, alone).allocated == together[position]


def test_offloaded_states_leave_the_device() -> None:
    """What stays are gathered units, gradients on their way, and activations."""
    plan: dict[str, Any] = {"runtime": "fsdp2", "recompute": "full"}
    setting, ledger = run(4, offload_parameters=True, **plan)
    assert set(dataclasses.astuple(states(setting, ledger))) == {0}
    there, _ = run(4, **plan)
    assert gathered(setting, ledger) == gathered(there, ledger)
    with pytest.raises(NotModelledError, match="offload_parameters"):
        run(4, runtime="deepspeed", zero=3, offload_parameters=True)
