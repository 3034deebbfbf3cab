"""Host memory, a reference model, waiting logits, user buffers and narrow weights, by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.strategies import DENSE, GPT, HIDDEN, LAYERS, MIXTURE, cluster
from tonnage.arch import Architecture
from tonnage.ledger import StageLedger, Weight, stage_ledgers
from tonnage.ledger.flops import block_length
from tonnage.memory import stage_memory
from tonnage.memory.alive import live_inside
from tonnage.memory.buffers import deferred_logits
from tonnage.memory.peak import StageMemory
from tonnage.memory.states import parameter_bytes, states
from tonnage.memory.workspace import user_buffers
from tonnage.plan import Plan, Resolved, resolve

MIB = 2**20


def run(architecture: Architecture = DENSE, gpus: int = 1, **plan: Any) -> Resolved:
    return resolve(Plan(**{"seq": 256, **plan}), architecture, cluster(gpus))


def stages(resolved: Resolved) -> tuple[StageLedger, ...]:
    return stage_ledgers(resolved.setting, resolved.stages)


def memory(resolved: Resolved, stage: int = -1) -> StageMemory:
    return stage_memory(resolved.setting, stages(resolved)[stage])


def instants(resolved: Resolved) -> dict[str, int]:
    return {each.when: int(each.allocated) for each in memory(resolved).instants}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_optimizer_is_held_on_the_host(share: float) -> None:
    resolved = run(offload_optimizer=share, zero=0)
    there, full = (states(each.setting, stages(each)[0]) for each in (resolved, run(zero=0)))
    assert there.parameters == full.parameters
    assert there.gradients == full.gradients
    assert there.optimizer_states == full.optimizer_states * (1 - share)
    assert there.master_weights == full.master_weights * (1 - share)


def test_zero_offload_reduces_gradients_to_the_host() -> None:
    """ZeRO-Offload keeps 2 bytes a parameter at stage 2 and nothing of the rest."""
    resolved = run(gpus=4, runtime="deepspeed", zero=2, offload_optimizer=1.0)
    held = states(resolved.setting, stages(resolved)[0])
    numel = sum(int(n * w.numel) for w, n in stages(resolved)[0].weights())
    assert dataclasses.astuple(held) == (2 * numel, 0, 0, 0)


def test_offloaded_activations_leave_two_layers() -> None:
    plain, away = run(), run(offload_activations=True)
    kept = live_inside(plain.setting, stages(plain)[0])
    assert instants(plain)["loss"] - instants(away)["loss"] == kept - 2 * kept // LAYERS


def test_offloading_never_adds() -> None:
    for plan in ({}, {"recompute": "full"}, {"pp": 2, "grad_acc": 4, "zero": 1}):
        gpus = 2 if "pp" in plan else 1
        plain = instants(run(gpus=gpus, **plan))
        away = instants(run(gpus=gpus, offload_activations=True, **plan))
        assert all(away[when] <= plain[when] for when in plain)


def test_a_reference_model_is_its_weights_once_more() -> None:
    numel = sum(int(n * w.numel) for w, n in stages(run())[0].weights())
    plain, with_copy = (instants(run(reference_model=on)) for on in (False, True))
    assert {with_copy[when] - plain[when] for when in plain} == {2 * numel}
    adapted: dict[str, Any] = {"runtime": "transformers", "lora_rank": 4}
    assert instants(run(reference_model=True, **adapted)) == instants(run(**adapted))


@given(st.integers(1, 12), st.none() | st.integers(0, 12))
def test_logits_wait_for_the_weight_gradient(microbatches: int, limit: int | None) -> None:
    resolved = run(grad_acc=microbatches, wgrad_deferral_limit=limit)
    waiting = 0 if limit is None else min(microbatches - 1, limit or microbatches)
    assert deferred_logits(resolved.setting, stages(resolved)[0]) == waiting * 2 * 256 * 1024


def test_the_head_reads_a_gradient_while_that_of_the_logits_is_there() -> None:
    """With the loss in place: 2·T·h beyond the logits, and the shard it is reduced to."""
    resolved = run(gpus=4, tp=4, loss="in-place")
    found = instants(resolved)
    assert found["head product"] - found["head backward"] == 2 * 256 * HIDDEN * 5 // 4
    alone = instants(run(loss="in-place"))
    assert alone["head product"] - alone["head backward"] == 2 * 256 * HIDDEN


def test_overlap_of_tensor_parallel_products_has_buffers() -> None:
    resolved = run(gpus=4, tp=4, tp_comm_overlap=True)
    assert user_buffers(resolved.setting) == 3 * 32 * MIB + 2 * 256 * HIDDEN
    assert user_buffers(run(tp_comm_overlap=True).setting) == 0


@pytest.mark.parametrize(
    ("gathers", "transposes", "bytes_each"),
    [(False, True, 4), (False, False, 3), (True, True, 2), (True, False, 1)],
)
def test_narrow_weights_with_and_without_wide_ones_and_transposes(
    gathers: bool, transposes: bool, bytes_each: int
) -> None:
    habits = (("weight_transposes", str(transposes).lower()),)
    setting = run(precision="fp8", fp8_param_gather=gathers, habits=habits).setting
    narrow = Weight(name="w", shape=(64, 128), narrow=True)
    assert parameter_bytes(setting, narrow) == bytes_each * 64 * 128
    assert parameter_bytes(setting, dataclasses.replace(narrow, narrow=False)) == 2 * 64 * 128


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 30))
def test_a_block_over_a_stage_deals_its_layers_out(vpp: int, layers: int, reach: int) -> None:
    plan = Plan(
        vpp=vpp,
        recompute="full",
        recompute_method="block",
        recompute_num_layers=reach,
        recompute_per_stage=True,
    )
    taken = [block_length(plan, chunk, layers) for chunk in range(vpp)]
    assert sum(taken) == min(reach, vpp * layers)
    assert max(taken) - min(taken) <= 1


def test_rounds_of_more_micro_batches_than_stages_keep_more() -> None:
    """p = 2, v = 2: warm-up is 2(p - r - 1) + (v - 1)·g + 1 passes through a chunk."""
    wide: dict[str, Any] = {"gpus": 2, "pp": 2, "vpp": 2, "grad_acc": 8, "zero": 1}
    kept = [
        live_inside(each.setting, stages(each)[0])
        for each in (run(**wide), run(**wide, microbatch_group=4))
    ]
    assert kept[0] * 7 == kept[1] * 5


@pytest.mark.parametrize("modules", [("moe_act",), ("mlp",), ("layernorm",)])
def test_norms_inside_products_are_recomputed_with_them(modules: tuple[str, ...]) -> None:
    """Transformer Engine's norms: with a dense MLP its norm goes, alone it stays."""
    plan: dict[str, Any] = {"recompute": "selective", "recompute_modules": modules}
    plain, again = (run(GPT, **each) for each in ({}, plan))
    freed = live_inside(plain.setting, stages(plain)[0]) - live_inside(
        again.setting, stages(again)[0]
    )
    # x's norm, and the MLP's two wide tensors; LayerNorm's two statistics a row in fp32.
    one = 256 * (2 * HIDDEN + 2 * 256 + 2 * 256 + 8)
    assert freed == (LAYERS * one if modules == ("mlp",) else 0)


def test_only_experts_have_the_activation_of_experts() -> None:
    plan: dict[str, Any] = {"recompute": "selective", "recompute_modules": ("moe_act",)}
    plain, again = (run(MIXTURE, **each) for each in ({}, plan))
    freed = live_inside(plain.setting, stages(plain)[0]) - live_inside(
        again.setting, stages(again)[0]
    )
    assert freed == LAYERS * 2 * 256 * 2 * 48
