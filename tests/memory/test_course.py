"""Memory over a step, pass by pass, against the closed form of its peak."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings

from tests.plan.strategies import GPT, Run, cluster, runs
from tonnage.ledger import stage_ledgers
from tonnage.memory import stage_memory
from tonnage.memory.course import step_timeline
from tonnage.memory.states import passing_gradients
from tonnage.plan import Plan, Setting, resolve
from tonnage.plan.schedule import SPLITS, chunks, settled
from tonnage.timing.replay import PassCost, Span, replay


def spans_of(setting: Setting, m: int, stage: int) -> list[Span]:
    costs = [[PassCost(forward=1.0, backward=2.0, weight=1.0)] * chunks(setting.plan)]
    spans = replay(setting.plan, costs * setting.plan.pp, m)
    return [span for span in spans if span.stage == stage]


@given(runs())
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_fullest_moment_is_the_peak_of_the_closed_form(run: Run) -> None:
    """To the byte, under every runtime and schedule."""
    architecture, plan, where = run
    resolved = resolve(plan, architecture, where)
    setting = resolved.setting
    m = settled(setting.plan, int(setting.grad_acc))
    for ledger in stage_ledgers(setting, resolved.stages):
        stage = ledger.stage.index
        closed = stage_memory(setting, ledger)
        line = step_timeline(setting, ledger, spans_of(setting, m, stage), 100.0, 1.0)
        split = setting.plan.schedule in SPLITS
        short = setting.turns < 3 * setting.plan.pp
        if split and (short or passing_gradients(setting, ledger)):
            assert line.peak_bytes <= int(closed.allocated)
        else:
            assert line.peak_bytes == int(closed.allocated)
        for name, size in closed.peak.categories.items():
            if line.peak_bytes == int(closed.allocated) and not split:
                assert max(line.categories[name]) >= int(size)
        assert list(line.seconds) == sorted(line.seconds)
        assert min(value for series in line.categories.values() for value in series) >= 0
        named = dict.fromkeys(line.categories, 0)
        for each in line.alive:
            named[each.category] += each.bytes
        assert all(size <= line.categories[name][line.peak] * 1.01 for name, size in named.items())


@given(runs())
@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_first_step_starts_from_nothing(run: Run) -> None:
    architecture, plan, where = run
    plan = dataclasses.replace(plan, iteration="first")
    resolved = resolve(plan, architecture, where)
    setting = resolved.setting
    m = settled(setting.plan, int(setting.grad_acc))
    ledger = stage_ledgers(setting, resolved.stages)[0]
    line = step_timeline(setting, ledger, spans_of(setting, m, 0), 100.0, 1.0)
    assert line.phases[0] == (0, "load")
    assert sum(series[0] for series in line.categories.values()) == 0
    states = line.categories["optimizer_states"]
    step = next(index for index, name in line.phases if name == "optimizer step")
    assert set(states[:step]) == {0}
    assert len(set(states[step:])) == 1


@pytest.mark.parametrize("pp", [2, 4])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_a_short_interleaved_step_is_as_full_in_closed_form(pp: int, rounds: int) -> None:
    """Where warm-up takes every forward pass, the way back begins with all of them held."""
    plan = Plan(
        runtime="fsdp2", tp=2, pp=pp, vpp=2, dp=2, grad_acc=rounds * pp, seq=64, optimizer="sgd"
    )
    resolved = resolve(plan, GPT, cluster(4 * pp))
    m = settled(resolved.setting.plan, rounds * pp)
    for ledger in stage_ledgers(resolved.setting, resolved.stages):
        spans = spans_of(resolved.setting, m, ledger.stage.index)
        line = step_timeline(resolved.setting, ledger, spans, 100.0, 1.0)
        assert line.peak_bytes == int(stage_memory(resolved.setting, ledger).allocated)
