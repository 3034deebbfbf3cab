"""What each ZeRO stage shards: Rajbhandari et al., arXiv 1910.02054, figure 1 and section 5."""

from __future__ import annotations

import dataclasses

import pytest

from tests.plan.strategies import DENSE, cluster
from tonnage.algebra import total
from tonnage.ledger import stage_ledgers
from tonnage.memory.states import states
from tonnage.plan import Plan, resolve

RANKS = 8

# Bytes a parameter of weights, gradients, master and moments, over N where sharded.
SHARDED = {
    0: (2, 2, 4, 8),
    1: (2, 2, 4 / RANKS, 8 / RANKS),
    2: (2, 2 / RANKS, 4 / RANKS, 8 / RANKS),
    3: (2 / RANKS, 2 / RANKS, 4 / RANKS, 8 / RANKS),
}


@pytest.mark.parametrize("stage", SHARDED)
def test_each_stage_shards_one_more_part(stage: int) -> None:
    plan = Plan(runtime="deepspeed", zero=stage, precision="fp16-mixed", dp=RANKS, seq=64)
    resolved = resolve(plan, DENSE, cluster(RANKS))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    numel = total(count * weight.numel for weight, count in ledger.weights())
    assert numel % RANKS == 0
    held = states(resolved.setting, ledger)
    found = (held.parameters, held.gradients, held.master_weights, held.optimizer_states)
    assert found == tuple(each * numel for each in SHARDED[stage])


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_figure_1(stage: int, gigabytes: float) -> None:
    """7.5 billion parameters on 64 GPUs, here as bytes a parameter of any model."""
    plan = Plan(runtime="deepspeed", zero=stage, precision="fp16-mixed", dp=64, seq=64)
    resolved = resolve(plan, DENSE, cluster(64))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    numel = total(count * weight.numel for weight, count in ledger.weights())
    held = sum(dataclasses.astuple(states(resolved.setting, ledger)))
    assert round(7.5 * held / numel, 1) == gigabytes


def test_fully_sharded_stores_shards_at_stage_2_as_well() -> None:
    """`fully_shard` keeps the gathered parameters beside the shards that it owns."""
    kept = []
    for stage in (2, 3):
        plan = Plan(runtime="fsdp2", zero=stage, dp=RANKS, seq=64)
        resolved = resolve(plan, DENSE, cluster(RANKS))
        (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
        kept.append(states(resolved.setting, ledger))
    assert kept[0] == kept[1]
