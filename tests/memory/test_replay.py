"""The replay against the closed forms, the schedule and itself."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.plan.strategies import DENSE, GPT, MIXTURE, Run, cluster, model, runs
from tonnage.arch import MLP, RMSNORM, Architecture, Attention, Layer
from tonnage.ledger import stage_ledgers
from tonnage.ledger.loss import known
from tonnage.memory import reserved_by_stage, reserved_bytes, stage_memory
from tonnage.memory.replay import Replay, Replayed, replay
from tonnage.memory.schedule import live_per_chunk, shortened
from tonnage.memory.timeline import Recorder
from tonnage.plan import Plan, resolve
from tonnage.plan.layout import stages
from tonnage.plan.schedule import SPLITS
from tonnage.timing import STATED
from tonnage.timing.clocks import Clocks, Cost, Costs

GIB = 2**30
LLAMA = model(
    "llama",
    *[
        Layer(
            mixer=Attention(heads=32, kv_heads=32, head_dim=64),
            mlp=MLP(intermediate=8192, gated=True, activation="silu"),
            mixer_norm=RMSNORM,
            mlp_norm=RMSNORM,
        )
    ]
    * 4,
    hidden=2048,
    vocab=32768,
)


def replayed(
    architecture: Architecture, plan: Plan, gpus: int, stage: int = 0, **more: Any
) -> Replayed:
    """A stage's replay on H100s."""
    return one(architecture, plan, gpus, stage, **more).run()


def one(architecture: Architecture, plan: Plan, gpus: int, stage: int = 0, **more: Any) -> Replay:
    """The replay, not yet played."""
    where = cluster(gpus)
    resolved = resolve(plan, architecture, where)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    costs = Costs(resolved.setting, where, STATED)
    return Replay(resolved.setting, ledgers, stage, costs, **more)


NANOTRON = Plan(runtime="nanotron", seq=4096, zero=0, mbs=2, grad_acc=4, attention="flash")


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_tensors_are_those_of_the_closed_form(tp: int) -> None:
    plan = dataclasses.replace(NANOTRON, tp=tp)
    resolved = resolve(plan, LLAMA, cluster(tp))
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    closed = int(stage_memory(resolved.setting, ledger).allocated)
    assert replayed(LLAMA, plan, tp).allocated == pytest.approx(closed, rel=0.02)


def test_reserved_is_no_less_than_allocated_and_repeats() -> None:
    plan = dataclasses.replace(NANOTRON, tp=4)
    first, second = (replayed(LLAMA, plan, 4) for _ in range(2))
    assert first == second
    assert first.reserved >= first.allocated


def test_a_host_that_waits_for_collectives_holds_less() -> None:
    plan = dataclasses.replace(NANOTRON, tp=8)
    waiting = dataclasses.replace(plan, habits=(("verified_collectives", "true"),))
    assert replayed(LLAMA, waiting, 8).reserved < replayed(LLAMA, plan, 8).reserved


def test_capacity_gives_cached_blocks_back_until_there_are_none() -> None:
    plan = dataclasses.replace(NANOTRON, tp=8)
    where = cluster(8)
    resolved = resolve(plan, LLAMA, where)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    costs = Costs(resolved.setting, where, STATED)
    free = replay(resolved.setting, ledgers, 0, costs, 1024 * GIB)
    tight = replay(resolved.setting, ledgers, 0, costs, free.reserved * 99 // 100)
    assert (free.retries, tight.retries > 0) == (0, True)
    assert free.allocated <= tight.reserved < free.reserved
    assert replay(resolved.setting, ledgers, 0, costs, free.allocated // 2).reserved > (
        free.allocated // 2
    )


@given(runs())
@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
def test_any_legal_plan_can_be_played(run: Run) -> None:
    architecture, plan, where = run
    resolved = resolve(plan, architecture, where)
    assume(known(resolved.setting) and plan.schedule not in SPLITS)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    costs = Costs(resolved.setting, where, STATED)
    for stage in {0, len(ledgers) - 1}:
        played = Replay(resolved.setting, ledgers, stage, costs)
        found = played.run(steps=2)
        assert found.reserved >= found.allocated > 0
        assert not played.frames
        assert not played.outputs


@pytest.mark.parametrize(("p", "v"), [(1, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("stage", [0, 3])
def test_passes_hold_as_many_micro_batches_as_the_closed_form(p: int, v: int, stage: int) -> None:
    stage = min(stage, p - 1)
    plan = Plan(pp=p, vpp=v, schedule="interleaved" if v > 1 else "1f1b")
    live, most = Counter[int](), Counter[int]()
    order = shortened(plan, stage, 16)
    for each in order:
        live[each.chunk] += 1 if each.forward else -1
        most[each.chunk] = max(most[each.chunk], live[each.chunk])
    assert not +live
    assert sum(most.values()) >= sum(live_per_chunk(plan, stage, 16))
    assert len(order) == len(set(order))


def test_stages_that_cost_the_same() -> None:
    """The public sweep's: 1.34G over 2, 4 and 8 stages; a head as dear as four layers."""
    plain = [LLAMA.layers[0]] * 16
    architecture = dataclasses.replace(LLAMA, layers=tuple(plain), vocab=131072)
    for p, layers in ((2, [10, 6]), (4, [5, 5, 5, 1]), (8, [3, 2, 3, 2, 3, 2, 1, 0])):
        layout = stages(architecture, Plan(pp=p), "by-cost")
        assert [len(stage.layers) for stage in layout] == layers


def test_a_timeline_ends_where_it_began_and_names_its_peak() -> None:
    recorder = Recorder()
    played = one(LLAMA, NANOTRON, 1, recorder=recorder)
    found = played.run()
    line = recorder.timeline()
    assert line.peak_bytes == found.allocated
    assert line.peak_phase == "forward of micro-batch 0"
    assert all(series[-1] <= series[line.peak] for series in [line.categories["activations"]])
    assert line.alive[0].name == "moments"
    assert sum(each.bytes for each in line.alive) <= line.peak_bytes
    assert min(value for series in line.categories.values() for value in series) >= 0


def test_the_host_runs_ahead_until_the_queue_is_full() -> None:
    clocks = Clocks()
    for _ in range(3000):
        clocks.run(Cost(host=1e-6, device=1e-3))
    assert clocks.main - clocks.host == pytest.approx(1.024, rel=0.01)
    clocks.drain()
    assert clocks.host == clocks.main


@pytest.mark.parametrize("architecture", [DENSE, GPT, MIXTURE])
def test_recomputation_is_played(architecture: Architecture) -> None:
    plan = Plan(seq=256, recompute="full", mbs=2)
    less = replayed(architecture, plan, 1)
    more = replayed(architecture, dataclasses.replace(plan, recompute="none"), 1)
    assert less.allocated < more.allocated


def by_stage(architecture: Architecture, plan: Plan, gpus: int) -> tuple[list[int], list[int]]:
    """What the allocator holds on each stage, and what it would by its share."""
    where = cluster(gpus)
    resolved = resolve(plan, architecture, where)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    found = tuple(stage_memory(resolved.setting, ledger) for ledger in ledgers)
    costs = Costs(resolved.setting, where, STATED)
    held = reserved_by_stage(resolved.setting, ledgers, found, costs, 1024 * GIB)
    return list(held), [int(reserved_bytes(memory.held)) for memory in found]


def test_what_the_replay_does_not_know_keeps_its_share() -> None:
    held, share = by_stage(LLAMA, NANOTRON, 1)
    assert held != share
    for habits in ((("loss", "linear"),), (("reserved", "share"),)):
        held, share = by_stage(LLAMA, dataclasses.replace(NANOTRON, habits=habits), 1)
        assert held == share


def test_of_a_long_run_only_the_fullest_stage_is_replayed() -> None:
    deep = dataclasses.replace(LLAMA, layers=LLAMA.layers * 20)
    plan = dataclasses.replace(NANOTRON, pp=2, grad_acc=16)
    (first, last), shares = by_stage(deep, plan, 2)
    assert (first != shares[0], last == shares[1]) == (True, True)
