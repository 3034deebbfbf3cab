"""What lies in host memory: its copies, the step there, and what of both shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DENSE, cluster
from tonnage.arch import Architecture, load, read_config
from tonnage.cluster import Cluster, Host, find_device, host_of, parse_cluster, usual_host
from tonnage.cluster.catalog.links import PCIE_3
from tonnage.estimation import Estimate, estimate
from tonnage.ledger import StageLedger, saved_bytes, stage_ledgers
from tonnage.plan import Plan, Setting, resolve
from tonnage.timing.constants import HOST_LINK_SHARE, HOST_STEP_SHARE
from tonnage.timing.host_memory import (
    activation_seconds,
    exposed_activations,
    exposed_step,
    link_seconds,
    step_seconds,
    unit_copies,
)
from tonnage.timing.step import step_time

NODE = cluster(4)
A100S = parse_cluster("8xA100-80GB")
LLAMA = load("llama-3.1-8b")


def stage(where: Cluster = NODE, **plan: Any) -> tuple[Setting, StageLedger]:
    resolved = resolve(Plan(**{"seq": 256, **plan}), DENSE, where)
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    return resolved.setting, ledger


def weighed(architecture: Architecture = LLAMA, where: Cluster = A100S, **plan: Any) -> Estimate:
    return estimate(architecture, Plan(**{"runtime": "fsdp2", "seq": 4096, **plan}), where)


@pytest.mark.parametrize(
    ("name", "bandwidth"), [("A100", 31.5e9), ("H100", 63e9), ("GB200", 450e9), ("V100", 15.75e9)]
)
def test_the_link_to_the_host(name: str, bandwidth: float) -> None:
    assert usual_host(find_device(name)).link.bandwidth == bandwidth


def test_both_directions_run_at_once_and_neighbours_share_the_link() -> None:
    alone, pair, all_of_them = (parse_cluster(f"{n}xA100-80GB") for n in (1, 2, 8))
    rate = HOST_LINK_SHARE * 31.5e9
    assert link_seconds(alone, out=1e9) == pytest.approx(1e9 / rate)
    assert link_seconds(alone, out=1e9, back=1e9) == link_seconds(alone, out=1e9)
    assert link_seconds(pair, back=1e9) == pytest.approx(2e9 / rate)
    assert link_seconds(all_of_them, back=1e9) == link_seconds(pair, back=1e9)


def test_the_memory_of_a_host_bounds_its_devices_together() -> None:
    """Two GB200 have links of 450 GB/s to memory of 512."""
    one, two, four = (parse_cluster(f"{n}xGB200") for n in (1, 2, 4))
    memory = HOST_LINK_SHARE * 512e9
    assert link_seconds(one, out=1e9) == pytest.approx(1e9 / (HOST_LINK_SHARE * 450e9))
    assert link_seconds(two, out=1e9) == pytest.approx(2e9 / memory)
    assert link_seconds(four, out=1e9) == link_seconds(two, out=1e9)
    assert link_seconds(two, out=1e9, back=1e9) == pytest.approx(4e9 / memory)


def test_a_pass_hides_as_much_as_it_lasts() -> None:
    setting, ledger = stage(offload_activations=True)
    (operations,) = ledger.layers.values()
    one_way = activation_seconds(setting, ledger, NODE)
    kept = 8 * int(saved_bytes(setting, operations))
    assert one_way == pytest.approx(link_seconds(NODE, out=kept), rel=1e-12)
    for forward, backward in ((0.0, 0.0), (one_way / 2, one_way), (2 * one_way, 0.0)):
        shown = max(one_way - forward, 0) + max(one_way - backward, 0)
        assert exposed_activations(one_way, forward, backward) == pytest.approx(shown, rel=1e-12)


def test_of_layers_that_are_recomputed_only_inputs_leave() -> None:
    whole, block, none = (
        activation_seconds(*stage(offload_activations=True, **recompute), NODE)
        for recompute in (
            {"recompute": "full"},
            {"recompute": "full", "recompute_method": "block", "recompute_num_layers": 4},
            {"recompute": "none"},
        )
    )
    assert whole < block < none
    assert block == pytest.approx((whole + none) / 2, rel=1e-12)


@pytest.mark.parametrize("runtime", ["megatron", "fsdp2", "deepspeed", "mindspeed"])
def test_nothing_is_copied_unless_asked(runtime: str) -> None:
    setting, ledger = stage(runtime=runtime)
    assert activation_seconds(setting, ledger, NODE) == 0.0
    assert exposed_step(setting, ledger, NODE, 0.0) == 0.0
    assert set(unit_copies(setting, ledger, NODE).values()) == {0.0}
    assert weighed(DENSE, NODE, runtime=runtime, seq=256).step.breakdown["offload"] == 0.0


def test_a_step_on_the_host_gets_gradients_steps_and_gives_weights_back() -> None:
    """bf16-mixed: 4 bytes of gradient there, 30 read and written, and 2 of weight back."""
    setting, ledger = stage(offload_optimizer=0.5)
    mine = sum(int(n * w.numel) for w, n in ledger.weights()) / 4
    moved = link_seconds(NODE, out=2 * mine) + link_seconds(NODE, back=mine)
    whole = moved + step_seconds(NODE, 15 * mine)
    assert exposed_step(setting, ledger, NODE, 0.0) == pytest.approx(whole, rel=1e-6)
    # The device steps its half meanwhile.
    assert exposed_step(setting, ledger, NODE, whole / 3) == pytest.approx(2 * whole / 3, rel=1e-6)


def test_states_that_are_swapped_come_and_go_while_the_device_steps() -> None:
    setting, ledger = stage(runtime="mindspeed", offload_optimizer=1.0)
    mine = sum(int(n * w.numel) for w, n in ledger.weights()) / 4
    moved = link_seconds(NODE, out=12 * mine, back=12 * mine)
    assert exposed_step(setting, ledger, NODE, 0.0) == pytest.approx(moved, rel=1e-6)
    assert exposed_step(setting, ledger, NODE, 2 * moved) == 0.0
    plain, swapped = (
        weighed(DENSE, NODE, runtime="mindspeed", seq=256, offload_optimizer=share)
        for share in (0.0, 1.0)
    )
    assert swapped.step.breakdown["optimizer"] == plain.step.breakdown["optimizer"]


def test_gradients_of_zero_offload_leave_in_backward() -> None:
    setting, ledger = stage(runtime="deepspeed", zero=2, offload_optimizer=1.0, grad_acc=4)
    copies = unit_copies(setting, ledger, NODE)
    mine = sum(int(n * w.numel) for w, n in ledger.weights()) / 4
    size = 4 if setting.precision.gradients == "fp32" else 2
    assert copies["forward"] == 0.0
    assert copies["backward"] == pytest.approx(4 * link_seconds(NODE, out=size * mine), rel=1e-6)


def test_parameters_come_in_both_passes_of_every_micro_batch() -> None:
    setting, ledger = stage(runtime="fsdp2", offload_parameters=True, grad_acc=3)
    copies = unit_copies(setting, ledger, NODE)
    mine = sum(int(n * w.numel) for w, n in ledger.weights()) / 4
    assert setting.precision.weights == "fp32"
    assert copies["forward"] == pytest.approx(3 * link_seconds(NODE, back=4 * mine), rel=1e-6)
    both = link_seconds(NODE, out=4 * mine, back=4 * mine)
    assert copies["backward"] == pytest.approx(3 * both, rel=1e-6)


@pytest.mark.parametrize(
    ("runtime", "field", "value"),
    [
        ("fsdp2", "offload_parameters", True),
        ("fsdp2", "offload_activations", True),
        ("megatron", "offload_optimizer", 1.0),
        ("megatron", "offload_activations", True),
        ("deepspeed", "offload_optimizer", 1.0),
    ],
)
def test_an_offload_saves_memory_and_never_time(runtime: str, field: str, value: Any) -> None:
    plain, away = (weighed(runtime=runtime, **more) for more in ({}, {field: value}))
    assert away.memory.peak_bytes.allocated < plain.memory.peak_bytes.allocated
    assert away.step.breakdown["offload"] > 0
    other = sum(away.step.breakdown.values()) - away.step.breakdown["optimizer"]
    before = sum(plain.step.breakdown.values()) - plain.step.breakdown["optimizer"]
    assert other >= before
    assert away.step.seconds > plain.step.seconds
    assert any("copies to the host" in note for note in away.assumptions)
    assert not any("copies to the host" in note for note in plain.assumptions)


def test_a_faster_host_is_never_slower() -> None:
    plan: dict[str, Any] = {"offload_parameters": True, "offload_activations": True}
    slow = dataclasses.replace(host_of(A100S), memory=100e9)
    fast = dataclasses.replace(host_of(A100S), sharing=1)
    times = [
        weighed(where=A100S.override(host=host), **plan).step.seconds for host in (slow, None, fast)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[1]


@pytest.mark.parametrize(
    "plan",
    [
        {"runtime": "megatron", "offload_optimizer": 0.5, "offload_activations": True},
        {"runtime": "fsdp2", "offload_parameters": True, "offload_activations": True},
    ],
)
def test_a_column_is_what_each_plan_is_alone(plan: dict[str, Any]) -> None:
    sizes = (1, 2, 4)
    resolved = resolve(Plan(seq=256, gbs=16, **plan), DENSE, NODE)
    mbs = np.array(sizes, dtype=np.int64)
    setting = resolved.setting.columns(mbs=mbs, grad_acc=4 // mbs)
    column = step_time(setting, stage_ledgers(setting, resolved.stages), NODE)
    for place, size in enumerate(sizes):
        alone = estimate(DENSE, Plan(seq=256, gbs=16, mbs=size, **plan), NODE).step
        seconds = np.broadcast_to(column.parts["offload"], 3)[place]
        assert seconds == pytest.approx(alone.breakdown["offload"], rel=1e-9)


# What is published.

DGX_2 = Host(link=PCIE_3, sharing=4, memory=256e9, source="arXiv 2104.07857, figure 2b")


@pytest.mark.parametrize(
    ("billions", "seconds"), [(1, 0.22), (2, 0.51), (4, 1.03), (8, 2.41), (10, 2.57)]
)
def test_an_adam_step_of_zero_offload(billions: int, seconds: float) -> None:
    """arXiv 2101.06840, table 4: one process on a DGX-2; 30 bytes a parameter."""
    where = parse_cluster("1xV100-32GB").override(host=DGX_2)
    assert step_seconds(where, 30e9 * billions) == pytest.approx(seconds, rel=0.2)


def test_sixteen_readers_of_a_dgx_2() -> None:
    """arXiv 2104.07857, figure 2b: 3 GB/s for each GPU where all of them read."""
    where = Cluster.of(find_device("V100-32GB"), 1).override(gpus_per_node=16, gpus=16, host=DGX_2)
    assert 1e9 / link_seconds(where, back=1e9) == pytest.approx(3.0e9, rel=0.06)


TEN_BILLION = read_config(
    {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 4096,
        "n_layer": 50,
        "n_head": 32,
    },
    name="gpt2-10b",
)
"""arXiv 2101.06840, table 2."""


def test_ten_billion_parameters_on_one_v100() -> None:
    """arXiv 2101.06840, figure 7: at a batch of 512 an offload costs next to nothing there."""
    where = parse_cluster("1xV100-32GB").override(host=DGX_2)
    plan = Plan(
        runtime="deepspeed",
        zero=2,
        precision="fp16-mixed",
        seq=1024,
        mbs=8,
        gbs=512,
        recompute="full",
        offload_optimizer=1.0,
    )
    found = estimate(TEN_BILLION, plan, where)
    assert found.fits
    assert 9e9 < found.model.parameters < 11e9
    assert found.step.breakdown["offload"] < 0.01 * found.step.seconds
    # With one micro-batch a step it costs a tenth and more.
    once = estimate(TEN_BILLION, dataclasses.replace(plan, gbs=8), where)
    assert once.step.breakdown["offload"] > 0.1 * once.step.seconds


def test_seventy_billion_on_eight_a100() -> None:
    """torchtune's table of recipes: Llama 3.1 70B with FSDP2 and CPU offload, 1,568 tokens/s."""
    plan = Plan(
        runtime="torchtune",
        zero=3,
        precision="bf16",
        seq=2048,
        mbs=2,
        recompute="full",
        offload_parameters=True,
        compile=True,
    )
    found = estimate(load("llama-3.1-70b"), plan, A100S)
    assert found.step.tokens_per_second == pytest.approx(1568, rel=0.2)
    without = found.step.seconds - found.step.breakdown["offload"]
    assert found.step.tokens_per_step / without > 1.5 * 1568


def test_step_share_is_that_of_the_table() -> None:
    table = ((1, 0.22), (2, 0.51), (4, 1.03), (8, 2.41), (10, 2.57))
    rates = [30e9 * billions / seconds / 256e9 for billions, seconds in table]
    assert sum(rates) / len(rates) == pytest.approx(HOST_STEP_SHARE, abs=0.01)
