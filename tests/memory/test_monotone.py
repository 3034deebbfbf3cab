"""How memory moves when one number of a plan does."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.plan.strategies import LAYERS, MODELS, Run, cluster, runs
from tonnage.algebra import total
from tonnage.arch import Architecture, MoE
from tonnage.ledger import StageLedger, parameters, saved_bytes, saved_tensors, stage_ledgers
from tonnage.ledger.layer import recomputed_modules
from tonnage.memory import StageMemory, stage_memory
from tonnage.memory.states import States, states
from tonnage.plan import Plan, Resolved, Setting, resolve
from tonnage.plan.idle import without_idle
from tonnage.runtime import RUNTIMES

EXAMPLES = settings(max_examples=60)


def ledgers(resolved: Resolved, setting: Setting | None = None) -> tuple[StageLedger, ...]:
    return stage_ledgers(setting or resolved.setting, resolved.stages)


def persistent(held: States) -> int:
    return int(held.parameters + held.master_weights + held.gradients + held.optimizer_states)


FIXED = ("weight_cast", "one_plus_weight", "router.ends")
"""Ends of the names of tensors that do not grow with the tokens."""


def growing(setting: Setting, ledger: StageLedger) -> dict[Any, int]:
    """Bytes that each layer keeps, without what is as large as a weight or as many as experts."""
    found = {}
    for layer, ops in ledger.layers.items():
        kept = saved_tensors(ops, recomputed_modules(setting))
        fixed = sum(int(t.bytes) for t in kept if t.name.endswith(FIXED))
        found[layer] = int(saved_bytes(setting, ops)) - fixed
    return found


def activations(memory: StageMemory) -> int:
    """When forward ends, with every live micro-batch's there."""
    return int(memory.instants[0].categories["activations"])


@EXAMPLES
@given(runs())
def test_a_higher_zero_stage_never_keeps_more(run: Run) -> None:
    resolved = resolve(run[1], run[0], run[2])
    for ledger in ledgers(resolved):
        kept = [
            persistent(states(dataclasses.replace(resolved.setting, zero=stage), ledger))
            for stage in range(4)
        ]
        assert kept == sorted(kept, reverse=True)


@EXAMPLES
@given(runs(), st.sampled_from([2, 3, 8]))
def test_more_shards_never_keep_more(run: Run, times: int) -> None:
    architecture, plan, ranks = run
    fewer = resolve(dataclasses.replace(plan, hsdp_shard=None), architecture, ranks)
    dp = fewer.setting.dp * times
    more = dataclasses.replace(fewer.setting, dp=dp, shard=dp * fewer.setting.cp)
    pairs = zip(ledgers(fewer), ledgers(fewer, more), strict=True)
    for before, after in pairs:
        assert persistent(states(more, after)) <= persistent(states(fewer.setting, before))


@EXAMPLES
@given(st.sampled_from(MODELS), st.sampled_from(["megatron", "nanotron"]), st.booleans())
def test_more_tensor_parallelism_never_keeps_more(
    architecture: Architecture, runtime: str, adapters: bool
) -> None:
    kept = []
    for tp in (1, 2, 4):
        plan = Plan(runtime=runtime, tp=tp, dp=2, zero=0, seq=64)
        if adapters:
            plan = dataclasses.replace(plan, lora_rank=4)
        resolved = resolve(plan, architecture, cluster(2 * tp))
        (ledger,) = ledgers(resolved)
        kept.append(states(resolved.setting, ledger))
    for before, after in itertools.pairwise(kept):
        assert persistent(after) < persistent(before)
        assert after.parameters < before.parameters


@EXAMPLES
@given(runs())
def test_twice_the_micro_batch_keeps_exactly_twice(run: Run) -> None:
    """Of formats without blocks: a block that is not full has a whole scale."""
    resolved = resolve(run[1], run[0], run[2])
    assume(resolved.setting.precision.quantized not in ("mxfp8", "nvfp4"))
    assume(resolved.plan.moe_imbalance == 1.0)
    twice = dataclasses.replace(resolved.setting, mbs=2 * resolved.setting.mbs)
    for before, after in zip(ledgers(resolved), ledgers(resolved, twice), strict=True):
        kept = growing(resolved.setting, before)
        assert growing(twice, after) == {layer: 2 * size for layer, size in kept.items()}


@EXAMPLES
@given(runs())
def test_twice_the_sequence_keeps_at_least_twice(run: Run) -> None:
    resolved = resolve(run[1], run[0], run[2])
    assume(resolved.setting.precision.quantized not in ("mxfp8", "nvfp4"))
    assume(resolved.plan.moe_imbalance == 1.0)
    twice = dataclasses.replace(resolved.setting, seq=2 * resolved.setting.seq)
    for before, after in zip(ledgers(resolved), ledgers(resolved, twice), strict=True):
        longer = growing(twice, after)
        for layer, size in growing(resolved.setting, before).items():
            assert longer[layer] >= 2 * size
            assert longer[layer] == 2 * size or resolved.plan.attention == "eager"


@EXAMPLES
@given(runs(), st.sampled_from(["uniform", "block"]), st.integers(1, 3))
def test_recomputing_more_keeps_less(run: Run, method: Any, layers: int) -> None:
    architecture, plan, ranks = run
    kept = []
    for granularity in ("none", "selective", "full"):
        chosen = dataclasses.replace(
            plan,
            recompute=granularity,
            recompute_modules=("core_attn",),
            recompute_method=method,
            recompute_num_layers=LAYERS if method == "block" else layers,
        )
        resolved = resolve(without_idle(chosen, architecture), architecture, ranks)
        kept.append([activations(stage_memory(resolved.setting, x)) for x in ledgers(resolved)])
    for none, selective, full in zip(*kept, strict=True):
        assert full < selective <= none


@EXAMPLES
@given(st.sampled_from(MODELS), st.sampled_from([1, 2, 4]))
def test_block_recomputation_keeps_less_with_every_layer(
    architecture: Architecture, pp: int
) -> None:
    kept = []
    for layers in range(1, LAYERS // pp + 2):
        plan = Plan(
            pp=pp,
            recompute="full",
            recompute_method="block",
            recompute_num_layers=layers,
            seq=64,
        )
        resolved = resolve(plan, architecture, cluster(pp))
        kept.append(activations(stage_memory(resolved.setting, ledgers(resolved)[0])))
    assert kept[-1] == kept[-2]
    assert all(more > less for more, less in itertools.pairwise(kept[:-1]))


def stage_parameters(architecture: Architecture, pp: int) -> list[int]:
    resolved = resolve(Plan(pp=pp, seq=64), architecture, cluster(pp))
    return [
        int(total(count * weight.numel for weight, count in ledger.weights()))
        for ledger in ledgers(resolved)
    ]


@pytest.mark.parametrize("architecture", MODELS, ids=lambda model: str(model.name))
def test_more_stages_never_hold_more_each(architecture: Architecture) -> None:
    most = [max(stage_parameters(architecture, pp)) for pp in (1, 2, 4, 8)]
    assert most == sorted(most, reverse=True)
    assert len(set(most)) == 4


@pytest.mark.parametrize("architecture", MODELS, ids=lambda model: str(model.name))
def test_stages_hold_the_model_and_one_more_copy_of_a_tied_table(
    architecture: Architecture,
) -> None:
    rows = -(-architecture.vocab // 128) * 128
    padding = rows - architecture.vocab
    tables = 1 if architecture.tied_embeddings else 2
    whole = parameters(architecture).total + tables * padding * architecture.hidden
    assert stage_parameters(architecture, 1) == [whole]
    copy = rows * architecture.hidden if architecture.tied_embeddings else 0
    for pp in (2, 4, 8):
        assert sum(stage_parameters(architecture, pp)) == whole + copy


def test_expert_parallelism_divides_the_experts_and_nothing_else() -> None:
    for architecture in MODELS:
        if not architecture.is_moe:
            continue
        held = []
        for ep in (1, 2, 4, 8):
            plan = Plan(ep=ep, dp=8, zero=0, seq=64)
            resolved = resolve(plan, architecture, cluster(8))
            (ledger,) = ledgers(resolved)
            experts = total(n * w.numel for w, n in ledger.weights() if w.group == "expert")
            dense = total(n * w.numel for w, n in ledger.weights() if w.group == "dense")
            held.append((experts * ep, dense))
        assert len(set(held)) == 1
        assert any(isinstance(layer.mlp, MoE) for layer in architecture.layers)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_one_rank_needs_no_buffers_of_parallelism(runtime: str) -> None:
    """Only what a runtime allocates at any size: nothing is sent by one rank."""
    for architecture in MODELS:
        resolved = resolve(Plan(runtime=runtime, seq=64), architecture, cluster(1))
        (ledger,) = ledgers(resolved)
        memory = stage_memory(resolved.setting, ledger)
        fixed = resolved.setting.runtime.bucket_bytes if resolved.setting.zero else 0
        assert {i.categories["communication_buffers"] for i in memory.instants} == {fixed}
