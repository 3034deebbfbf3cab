"""A run over a step: its peaks are the estimate's, and its passes fill the step."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tonnage import Plan, estimate, load, parse_cluster
from tonnage.estimation import RunTimeline, timeline

PLANS = {
    "1f1b": Plan(seq=4096, tp=2, pp=4, grad_acc=16),
    "interleaved": Plan(seq=4096, tp=2, pp=4, vpp=2, grad_acc=16),
    "zero-bubble": Plan(seq=4096, tp=2, pp=4, grad_acc=16, schedule="zero-bubble"),
    "zbv": Plan(seq=4096, tp=2, pp=4, vpp=2, grad_acc=16, schedule="zbv"),
    "dualpipe": Plan(seq=4096, tp=2, pp=4, grad_acc=16, schedule="dualpipe"),
    "dualpipev": Plan(seq=4096, tp=2, pp=4, vpp=2, grad_acc=16, schedule="dualpipev"),
    "fsdp": Plan(seq=4096, runtime="fsdp2"),
    "nanotron": Plan(seq=4096, runtime="nanotron", pp=4, grad_acc=16),
    "full": Plan(seq=4096, tp=2, pp=4, grad_acc=16, recompute="full", schedule="zero-bubble"),
}


def of(name: str) -> tuple[Plan, RunTimeline]:
    plan = PLANS[name]
    return plan, timeline(load("llama-3.1-8b"), plan, parse_cluster("16xH100"))


@pytest.mark.parametrize("name", PLANS)
def test_every_stage_peaks_where_the_estimate_says(name: str) -> None:
    plan, run = of(name)
    answer = estimate(load("llama-3.1-8b"), plan, parse_cluster("16xH100"))
    peaks = [stage.peak_bytes.allocated for stage in answer.memory.stages]
    assert [stage.peak_bytes for stage in run.stages] == peaks
    for stage in run.stages:
        sizes = [series[stage.peak_point] for series in stage.categories.values()]
        assert sum(sizes) == stage.peak_bytes
        assert stage.instants[stage.peak_point] == stage.peak_instant
        assert stage.top_tensors[0].bytes > 0


@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zero-bubble", "zbv", "dualpipev"])
def test_passes_fill_the_step(name: str) -> None:
    """The replay is as long as the estimate's closed form, within what a page says of it."""
    _, run = of(name)
    pipeline = run.pipeline
    assert pipeline.form_seconds == pytest.approx(pipeline.step_seconds, rel=0.07)
    assert pipeline.seconds <= pipeline.step_seconds
    for stage in range(4):
        spans = sorted((s.start, s.end) for s in pipeline.spans if s.stage == stage)
        free = [each for each in spans if each[0] > spans[0][0]]
        assert all(start >= 0.0 for start, _ in spans)
        assert all(b[0] >= a[1] - 1e-12 or b == a for a, b in itertools.pairwise(free))
    assert 0.0 < pipeline.idle < 1.0


def test_a_step_cut_short_takes_what_all_of_it_takes() -> None:
    """Micro-batches that are left out repeat the slowest stage's."""
    plan = dataclasses.replace(PLANS["1f1b"], grad_acc=11)
    model, where = load("llama-3.1-8b"), parse_cluster("16xH100")
    whole = timeline(model, plan, where).pipeline
    assert whole.replayed == whole.microbatches == 11
    longer = timeline(model, dataclasses.replace(plan, grad_acc=64), where).pipeline
    assert longer.replayed == 11
    each = (longer.step_seconds - whole.step_seconds) / (64 - 11)
    assert longer.step_seconds == pytest.approx(whole.seconds + 53 * each)
    assert longer.form_seconds == pytest.approx(longer.step_seconds, rel=0.01)


def test_the_first_step_begins_with_loading_and_ends_with_states() -> None:
    _, run = of("1f1b")
    line = run.first_step
    assert line.stage == run.fullest.stage
    assert line.seconds[0] < 0.0
    assert line.phases[0].name == "load"
    assert sum(series[0] for series in line.categories.values()) == 0
    states = line.categories["optimizer_states"]
    assert states[line.peak_point] == 0
    assert states[-1] == run.fullest.categories["optimizer_states"][0] > 0
