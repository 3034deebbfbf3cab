"""What experts keep and how their states are shared, where they differ from a dense MLP."""

from __future__ import annotations

import dataclasses

from tests.plan.strategies import MIXTURE, cluster
from tonnage.arch import Architecture, MoE
from tonnage.ledger import saved_tensors, stage_ledgers
from tonnage.plan import Plan, Setting, resolve


def plain(architecture: Architecture) -> Architecture:
    """The same with experts that have a plain activation."""
    layers = []
    for layer in architecture.layers:
        if isinstance(layer.mlp, MoE):
            expert = dataclasses.replace(layer.mlp.expert, gated=False, activation="gelu")
            layer = dataclasses.replace(layer, mlp=dataclasses.replace(layer.mlp, expert=expert))
        layers.append(layer)
    return dataclasses.replace(architecture, layers=tuple(layers))


def kept(architecture: Architecture, runtime: str) -> set[str]:
    resolved = resolve(Plan(runtime=runtime, seq=128), architecture, cluster(1))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    return {
        tensor.name
        for layer, operations in ledger.layers.items()
        if isinstance(layer.mlp, MoE)
        for tensor in saved_tensors(operations)
    }


def test_a_plain_activation_is_kept_before_and_after_it_is_scaled() -> None:
    both = {"moe.expert.activated", "moe.expert.scaled"}
    assert both <= kept(plain(MIXTURE), "megatron")
    assert "moe.expert.scaled" not in kept(MIXTURE, "megatron")
    assert "moe.expert.scaled" not in kept(plain(MIXTURE), "fsdp2")


def setting(**fields: object) -> Setting:
    plan = dataclasses.replace(Plan(seq=128, etp=1, zero=1), **fields)  # type: ignore[arg-type]
    return resolve(plan, MIXTURE, cluster(8)).setting


def test_instances_of_the_shards_are_instances_of_the_experts() -> None:
    """Two copies of the dense shards are two copies of each expert's."""
    assert setting(ep=2).expert_shard == 4
    assert setting(ep=2, hsdp_shard=4).expert_shard == 2
    assert setting(ep=4, hsdp_shard=4).expert_shard == 1
    assert setting(ep=4, hsdp_shard=2).expert_shard == 1
