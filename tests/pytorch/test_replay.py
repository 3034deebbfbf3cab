"""A recording through the caching allocator, and as a timeline."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tonnage.memory.allocator import MIB, OutOfMemoryError, Policy
from tonnage.memory.peak import CATEGORIES
from tonnage.pytorch import Trace, alive_at_peak, record, replay, timeline


def recorded() -> Trace:
    """Two layers, their loss, and the step of an optimizer."""
    with record() as recorder:
        layers = [torch.nn.Linear(512, 512, bias=False) for _ in range(2)]
        model = torch.nn.Sequential(*layers)
        recorder.adopt_module(model)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.empty(2048, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return recorder.trace()


def test_segments_hold_blocks_and_blocks_tensors() -> None:
    trace = recorded()
    found = replay(trace)
    assert found.reserved >= found.allocated >= trace.peak.bytes
    assert found.reserved % (2 * MIB) == 0
    assert found.retries == 0


def test_a_step_that_comes_again_needs_no_more() -> None:
    """All that one step has made and not freed goes before the next."""
    trace = recorded()
    lasting = [a for a in trace.allocations if a.died is None]
    assert {a.category for a in lasting} >= {"parameter", "optimizer state"}
    assert replay(trace).allocated < 2 * trace.peak.bytes


def test_a_device_that_is_too_small() -> None:
    with pytest.raises(OutOfMemoryError):
        replay(recorded(), Policy(capacity=4 * MIB))


def test_a_timeline_has_the_peak_of_the_recording() -> None:
    trace = recorded()
    drawn = timeline(trace)
    assert drawn.peak_bytes == trace.peak.bytes
    assert drawn.peak_phase == trace.peak.phase
    assert set(drawn.categories) <= set(CATEGORIES)
    lengths = {len(series) for series in drawn.categories.values()}
    assert lengths == {len(drawn.seconds)}
    assert min(min(series) for series in drawn.categories.values()) == 0


def test_what_is_alive_at_the_peak_is_all_of_it() -> None:
    trace = recorded()
    assert sum(each.bytes for each in alive_at_peak(trace, count=100)) == trace.peak.bytes
    kept = {each.name: each.count for each in alive_at_peak(trace)}
    assert kept["parameter"] == 2


def test_nothing_is_a_recording_too() -> None:
    empty = dataclasses.replace(recorded(), allocations=(), phases=())
    assert replay(empty).reserved == 0
    assert timeline(empty).alive == ()
