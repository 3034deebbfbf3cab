"""What replicas exchange: in how many calls and collectives, and what checking them takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.ledger.test_columns import DENSE_ROWS, base, column, one
from tests.plan.strategies import DENSE, MIXTURE, cluster
from tonnage.arch import load
from tonnage.cluster import Cluster, parse_cluster
from tonnage.ledger import StageLedger, stage_ledgers
from tonnage.plan import Plan, Setting, resolve, stages
from tonnage.timing import constants
from tonnage.timing.buckets import buckets, parameters
from tonnage.timing.kernel import rates
from tonnage.timing.replicas import exposed_data_parallel
from tonnage.timing.stage import layer_times, stage_time
from tonnage.timing.step import step_time
from tonnage.timing.verification import barrier_seconds

LLAMA = load("llama-3.1-8b")
NODES = parse_cluster("64xH100")
MIB = 2**20


def first(plan: Plan, where: Cluster = NODES) -> tuple[Setting, StageLedger]:
    """The first stage of a plan of Llama 8B."""
    resolved = resolve(plan, LLAMA, where)
    return resolved.setting, stage_ledgers(resolved.setting, resolved.stages)[0]


def exposed(plan: Plan, where: Cluster = NODES) -> float:
    """Seconds of its replicas' traffic that nothing hides."""
    setting, ledger = first(plan, where)
    rate = rates(setting, where.device)
    time = stage_time(setting, ledger, layer_times(setting, (ledger,), where, rate), where, rate)
    return float(exposed_data_parallel(setting, ledger, time, where))


def habits(**values: str) -> Plan:
    return Plan(runtime="nanotron", zero=0, mbs=1, seq=512, tp=8, habits=tuple(values.items()))


def test_a_parameter_larger_than_a_bucket_has_one_of_its_own() -> None:
    setting, ledger = first(Plan(runtime="nanotron", zero=0, tp=1, seq=512))
    # Of a layer only the output product's 32 MiB, joined gate and up, down, joined qkv count; all
    # are past 25 MiB, and the norms' 8 KiB fill next to nothing. Then embedding and head.
    found = buckets(setting, ledger, "dp_cp")
    assert found == pytest.approx(4 * 32 + 2, abs=0.05)


def test_small_parameters_share_buckets_by_their_bytes() -> None:
    plan = habits(reduce_bytes=str(2**40))
    assert buckets(*first(plan), "dp_cp") == 1
    plan = habits(reduce_bytes=str(1000 * MIB))
    setting, ledger = first(plan)
    held = sum(
        count * float(weight.numel) * 2
        for piece, count in ledger.pieces()
        for op in piece
        for weight in op.weights
    )
    assert buckets(setting, ledger, "dp_cp") == pytest.approx(held / (1000 * MIB))


@pytest.mark.parametrize(("joined", "count"), [("fused", 6), ("separate", 9)])
def test_joined_layers_are_one_parameter(joined: str, count: int) -> None:
    setting, ledger = first(habits(qkv=joined, gate_up=joined))
    assert parameters(setting, ledger, "dp_cp") == count * 32 + 3
    assert parameters(setting, ledger, "edp") == 0


def test_experts_fill_buckets_of_their_own() -> None:
    plan = Plan(runtime="nanotron", zero=0, ep=2, seq=64)
    resolved = resolve(plan, MIXTURE, cluster(16))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    counts = [parameters(resolved.setting, ledger, axis) for axis in ("dp_cp", "edp")]
    assert all(counts)
    assert buckets(resolved.setting, ledger, "edp") >= 1


def test_each_call_is_checked_and_not_each_parameter() -> None:
    """Hosts agree once a bucket, however many collectives it issues."""
    plan = habits(overlap_grad_reduce="false")
    setting, ledger = first(plan)
    calls = float(buckets(setting, ledger, "dp_cp"))
    for tensors in ("one", "each"):
        free = habits(overlap_grad_reduce="false", bucket_tensors=tensors)
        checked = dataclasses.replace(free, habits=(*free.habits, ("verified_collectives", "true")))
        # One rank of each of eight nodes.
        once = constants.VERIFY_NEAR + 7 * constants.VERIFY_FAR
        assert exposed(checked) - exposed(free) == pytest.approx(calls * once)


def test_collectives_of_their_own_cost_their_own_latency() -> None:
    slow = parse_cluster("64xH100")
    slow = dataclasses.replace(slow, network=dataclasses.replace(slow.network, name="EFA"))
    plans = [
        habits(bucket_tensors=tensors, overlap_grad_reduce="false") for tensors in ("one", "each")
    ]
    setting, ledger = first(plans[0])
    more = parameters(setting, ledger, "dp_cp") - buckets(setting, ledger, "dp_cp")
    assert exposed(plans[1], slow) - exposed(plans[0], slow) > more * constants.FABRIC_HOPS["EFA"]


def test_a_gathered_slice_costs_the_host_its_copy() -> None:
    plan = dataclasses.replace(habits(gathered_slices="true"), zero=1)
    whole = dataclasses.replace(habits(gathered_slices="false"), zero=1)
    setting, ledger = first(plan)
    slices = float(parameters(setting, ledger, "dp_cp")) * 8
    assert exposed(plan) - exposed(whole) == pytest.approx(slices * constants.HOST_SLICE)


def test_what_nobody_holds_is_not_checked() -> None:
    """A dense model has no replicas of experts, whose empty group is as large as a stage."""
    plan = dataclasses.replace(habits(overlap_grad_reduce="false"), zero=1)
    checked = dataclasses.replace(plan, habits=(*plan.habits, ("verified_collectives", "true")))
    once = constants.VERIFY_NEAR + 7 * constants.VERIFY_FAR
    assert exposed(checked) - exposed(plan) == pytest.approx(2 * once)


def test_a_step_ends_with_a_barrier_that_is_checked_too() -> None:
    setting, ledger = first(habits(verified_collectives="true"))
    barrier = barrier_seconds(setting, NODES)
    assert barrier == pytest.approx(8 * constants.VERIFY_NEAR + 56 * constants.VERIFY_FAR)
    assert step_time(setting, (ledger,), NODES).parts["host"] >= barrier
    assert barrier_seconds(first(habits())[0], NODES) == 0


def test_checked_columns_are_each_of_their_plans() -> None:
    checked = (("verified_collectives", "true"),)
    setting = base(DENSE, "nanotron", zero=0, sp=True, habits=checked)
    layout = stages(DENSE, setting.plan)
    where = parse_cluster("64xA100-40GB")

    def seconds(of: Setting) -> Any:
        return step_time(of, stage_ledgers(of, layout), where).seconds

    together = seconds(column(setting, DENSE_ROWS))
    alone = [seconds(one(setting, row)) for row in DENSE_ROWS]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
