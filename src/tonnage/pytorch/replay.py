"""A dry run through the caching allocator: what is reserved, and memory over the step.

The same model of the allocator as the estimate's (`tonnage.memory.allocator`), fed with what
was recorded. The step is played twice: the second finds the blocks that the first has left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.memory.allocator import Allocator, Block, Policy
from tonnage.memory.timeline import AtPeak, Timeline
from tonnage.pytorch.trace import Allocation, Category, Trace, without_places

TOP = 12
"""Storages that are named at the peak."""

SERIES: dict[Category, str] = {
    "parameter": "parameters",
    "buffer": "parameters",
    "gathered parameter": "communication_buffers",
    "communication buffer": "communication_buffers",
    "gradient": "gradients",
    "optimizer state": "optimizer_states",
    "step counter": "optimizer_states",
    "activation": "activations",
    "input": "activations",
    "temporary": "temporaries",
}
"""The categories of a recording among those of `tonnage.memory.peak.CATEGORIES`."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the allocator made of a recording, in bytes.

    Attributes:
        allocated: the most in blocks, which are rounded up.
        reserved: the most in segments.
        retries: how often the driver had no more and cached segments were given back.
    """

    allocated: int
    reserved: int
    retries: int


def replay(trace: Trace, policy: Policy | None = None) -> Replayed:
    """Play a recording through the allocator, its step twice, all on one stream.

    Args:
        trace: the recording.
        policy: what ``PYTORCH_CUDA_ALLOC_CONF`` sets, and the device's memory.

    Raises:
        tonnage.memory.allocator.OutOfMemoryError: the device has not that much.
    """
    allocator = Allocator(policy)
    blocks: dict[int, Block] = {}
    events = list(_events(trace))
    first = next((clock for clock, phase in trace.phases if phase == "forward"), 0)
    again = [event for event in events if event[0] >= first]
    inside = {index for _, index, begins in again if begins}
    for _, index, begins in events:
        _play(allocator, trace, blocks, index, begins=begins)
    for index in inside & blocks.keys():
        allocator.free(blocks.pop(index))
    for _, index, begins in again:
        if index in inside:
            _play(allocator, trace, blocks, index, begins=begins)
    return Replayed(
        allocated=allocator.peak_allocated,
        reserved=allocator.peak_reserved,
        retries=allocator.retries,
    )


def timeline(trace: Trace) -> Timeline:
    """The recording as the estimate's timeline.

    Its clock has no seconds: it counts allocations and releases.
    """
    level = dict.fromkeys(dict.fromkeys(SERIES.values()), 0)
    series: dict[str, list[int]] = {name: [] for name in level}
    clocks = []
    for clock, index, begins in _events(trace):
        storage = trace.allocations[index]
        level[SERIES[storage.category]] += storage.bytes if begins else -storage.bytes
        for name, size in level.items():
            series[name].append(size)
        clocks.append(clock)
    sums = [sum(sizes) for sizes in zip(*series.values(), strict=True)]
    return Timeline(
        seconds=tuple(float(index) for index in range(len(clocks))),
        categories={name: tuple(sizes) for name, sizes in series.items()},
        phases=_phases(trace, clocks),
        peak=sums.index(max(sums)) if sums else 0,
        alive=alive_at_peak(trace),
    )


def alive_at_peak(trace: Trace, count: int = TOP) -> tuple[AtPeak, ...]:
    """The largest storages at the peak: those of one operator in every layer are one entry."""
    clock = trace.peak.clock
    found: dict[tuple[str, str], list[int]] = {}
    for storage in trace.allocations:
        if storage.alive_at(clock):
            key = (_name(storage), SERIES[storage.category])
            found.setdefault(key, []).append(storage.bytes)
    largest = sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))
    return tuple(
        AtPeak(name=name, category=category, count=len(sizes), bytes=sum(sizes))
        for (name, category), sizes in largest[:count]
    )


def _name(storage: Allocation) -> str:
    """What a storage is, and where it comes from, with the places of layers left out."""
    if storage.category not in ("activation", "temporary", "gathered parameter"):
        return storage.category
    operator = storage.operator.split(".")[1] if "." in storage.operator else storage.operator
    return f"{without_places(storage.module)} {operator}".strip()


def _events(trace: Trace) -> Iterator[tuple[int, int, bool]]:
    """Every allocation and release in order: (clock, place among the allocations, begins)."""
    events = []
    for index, storage in enumerate(trace.allocations):
        if storage.bytes:
            events.append((storage.born, index, True))
            if storage.died is not None:
                events.append((storage.died, index, False))
    return iter(sorted(events))


def _play(
    allocator: Allocator, trace: Trace, blocks: dict[int, Block], index: int, *, begins: bool
) -> None:
    if begins:
        blocks[index] = allocator.malloc(trace.allocations[index].bytes)
    else:
        allocator.free(blocks.pop(index))


def _phases(trace: Trace, clocks: list[int]) -> tuple[tuple[int, str], ...]:
    """The first event of each part of the step, in the place that it has among the events."""
    places = ((bisect_left(clocks, start), str(phase)) for start, phase in trace.phases)
    starts = {place: phase for place, phase in places if place < len(clocks)}
    return tuple({0: "outside", **starts}.items())
