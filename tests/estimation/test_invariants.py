"""What holds of the estimate of any legal plan."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings

from tests.plan.strategies import Run, runs
from tonnage.estimation import estimate
from tonnage.plan.schedule import streams

EXAMPLES = settings(max_examples=60)


@EXAMPLES
@given(runs())
def test_memory_adds_up(run: Run) -> None:
    memory = estimate(*run).memory
    for stage in memory.stages:
        peak = stage.peak_bytes
        assert all(type(size) is int and size >= 0 for size in stage.categories.values())
        assert sum(stage.categories.values()) == peak.allocated
        assert peak.allocated == max(stage.instants.values()) == stage.instants[stage.peak_instant]
        assert 0 < peak.allocated <= peak.reserved <= peak.device
        assert peak.device == peak.reserved + memory.outside_bytes
    worst = memory.stages[memory.worst_stage]
    assert worst.peak_bytes.device == max(stage.peak_bytes.device for stage in memory.stages)
    assert memory.categories == worst.categories
    assert (memory.worst_rank, memory.peak_bytes) == (worst.first_rank, worst.peak_bytes)
    assert sum(memory.outside.values()) == memory.outside_bytes
    low, high = memory.range_bytes
    assert low <= memory.peak_bytes.device <= high
    assert memory.headroom_bytes == memory.capacity_bytes - memory.peak_bytes.device


@EXAMPLES
@given(runs())
def test_time_adds_up(run: Run) -> None:
    answer = estimate(*run)
    step = answer.step
    assert all(seconds >= 0.0 and math.isfinite(seconds) for seconds in step.breakdown.values())
    assert sum(step.breakdown.values()) == pytest.approx(step.seconds, rel=1e-12)
    assert 0.0 < step.lower_bound_seconds <= step.seconds
    low, high = step.range_seconds
    assert low <= step.seconds <= high
    assert 0.0 < step.mfu <= step.hfu
    assert 0.0 < step.mfu_causal <= step.hfu_causal <= 1.0
    assert step.mfu_causal < step.mfu
    plan = answer.plan
    assert plan.gbs is not None
    assert plan.seq is not None
    assert step.tokens_per_step == plan.gbs * plan.seq
    assert step.tokens_per_second * step.seconds == pytest.approx(step.tokens_per_step, rel=1e-12)
    assert answer.flops.per_token * step.tokens_per_step == pytest.approx(
        answer.flops.model_per_step, rel=1e-12
    )


@EXAMPLES
@given(runs())
def test_the_batch_and_the_ranks_multiply_out(run: Run) -> None:
    answer = estimate(*run)
    plan: Any = answer.plan
    assert plan.gbs == plan.mbs * plan.grad_acc * plan.dp
    assert plan.tp * plan.pp * plan.cp * plan.dp == answer.cluster.gpus
    layers = sum(stage.layers for stage in answer.memory.stages)
    assert layers == streams(plan) * len(run[0].layers)
    assert [stage.stage for stage in answer.memory.stages] == list(range(plan.pp))


@EXAMPLES
@given(runs())
def test_an_estimate_is_json_and_is_the_same_again(run: Run) -> None:
    answer = estimate(*run)
    text = json.dumps(answer.to_dict(), allow_nan=False)
    assert json.dumps(estimate(*run).to_dict(), allow_nan=False) == text
    assert ("does not fit" in str(answer)) == (not answer.fits)


@EXAMPLES
@given(runs())
def test_what_is_sent_has_bytes_a_group_and_a_count(run: Run) -> None:
    plan = run[1]
    for item in estimate(*run).communication:
        assert item.group_size > 1
        assert item.bytes_per_rank > 0
        assert item.count > 0
        if item.axis in ("tp", "cp", "ep", "pp"):
            assert item.group_size == getattr(plan, item.axis)
