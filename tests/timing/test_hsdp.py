"""HSDP: shards inside a group, copies over groups, for dense weights and for experts."""

from __future__ import annotations

from tests.plan.strategies import MIXTURE, cluster
from tonnage.ledger import stage_ledgers
from tonnage.plan import Plan, resolve
from tonnage.timing.traffic import data_parallel_traffic, mesh_axes


def test_experts_are_sharded_and_copied_in_groups_of_their_own() -> None:
    """16 ranks in two instances: shards of 8; with ep 2 an expert has 8 ranks, shards of 4."""
    plan = Plan(ep=2, etp=1, hsdp_shard=8, seq=64)
    resolved = resolve(plan, MIXTURE, cluster(16))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    found = [
        (t.collective.kind, t.axis.name, int(t.axis.size))
        for t in data_parallel_traffic(resolved.setting, ledger)
    ]
    assert found == [
        ("reduce_scatter", "hsdp_shard", 8),
        ("all_reduce", "hsdp_replicate", 2),
        ("all_gather", "hsdp_shard", 8),
        ("reduce_scatter", "hsdp_expert_shard", 4),
        ("all_reduce", "hsdp_expert_replicate", 2),
        ("all_gather", "hsdp_expert_shard", 4),
    ]


def test_a_shard_of_a_sum_is_what_its_copies_exchange() -> None:
    resolved = resolve(Plan(ep=2, etp=1, hsdp_shard=8, seq=64), MIXTURE, cluster(16))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    traffic = data_parallel_traffic(resolved.setting, ledger)
    for whole, share in ((traffic[0], traffic[1]), (traffic[3], traffic[4])):
        assert share.collective.bytes * whole.axis.size == whole.collective.bytes


def test_without_instances_all_of_the_copies_are_one_group() -> None:
    resolved = resolve(Plan(ep=2, etp=1, seq=64), MIXTURE, cluster(16))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    names = {t.axis.name for t in data_parallel_traffic(resolved.setting, ledger)}
    assert names == {"dp_cp", "edp"}
    axes = mesh_axes(resolved.setting)
    assert (axes["dp_cp"].size, axes["edp"].size) == (16, 8)
