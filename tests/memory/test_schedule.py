"""Micro-batches in flight, against schedules written out pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import sympy

from tonnage.memory.schedule import live_per_chunk
from tonnage.plan import Plan

Pass = tuple[Literal["forward", "backward"], int]


def gpipe(microbatches: int) -> Iterator[Pass]:
    """Every forward, then every backward."""
    yield from (("forward", 0) for _ in range(microbatches))
    yield from (("backward", 0) for _ in range(microbatches))


def one_forward_one_backward(p: int, stage: int, microbatches: int) -> Iterator[Pass]:
    """PipeDream-Flush: as many forwards as stages follow, then one of each."""
    warmup = min(p - stage - 1, microbatches)
    yield from (("forward", 0) for _ in range(warmup))
    for _ in range(microbatches - warmup):
        yield from (("forward", 0), ("backward", 0))
    yield from (("backward", 0) for _ in range(warmup))


def interleaved(p: int, v: int, stage: int, microbatches: int) -> Iterator[Pass]:
    """Megatron-Core's order: p micro-batches through a chunk, then p through the next.

    Backward passes go through the chunks in the opposite order.
    """
    passes = microbatches * v
    chunk = [k // p % v for k in range(passes)]
    warmup = min(2 * (p - stage - 1) + (v - 1) * p, passes)
    yield from (("forward", chunk[k]) for k in range(warmup))
    for k in range(passes - warmup):
        yield "forward", chunk[warmup + k]
        yield "backward", v - 1 - chunk[k]
    yield from (("backward", v - 1 - chunk[k]) for k in range(passes - warmup, passes))


def fullest(order: Iterator[Pass], chunks: int = 1) -> list[tuple[int, ...]]:
    """Live micro-batches of each chunk at every moment when most are alive."""
    live = [0] * chunks
    moments: list[tuple[int, ...]] = []
    for direction, chunk in order:
        live[chunk] += 1 if direction == "forward" else -1
        assert live[chunk] >= 0
        moments.append(tuple(live))
    assert live == [0] * chunks
    most = max(sum(moment) for moment in moments)
    return [moment for moment in moments if sum(moment) == most]


SIZES = [(p, stage, m) for p in (1, 2, 3, 4, 8) for stage in range(p) for m in (1, 2, 3, 8, 16)]


@pytest.mark.parametrize(("p", "stage", "m"), SIZES)
def test_one_forward_one_backward(p: int, stage: int, m: int) -> None:
    live = live_per_chunk(Plan(pp=p, schedule="1f1b"), stage, m)
    assert [tuple(live)] == sorted(set(fullest(one_forward_one_backward(p, stage, m))))


@pytest.mark.parametrize("m", [1, 4, 9])
def test_gpipe(m: int) -> None:
    assert live_per_chunk(Plan(pp=4, schedule="gpipe"), 2, m) == [m]
    assert fullest(gpipe(m)) == [(m,)]


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("v", [2, 3, 4])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_interleaved(p: int, v: int, rounds: int) -> None:
    """The most passes alive at once, spread over the chunks as at some such moment."""
    plan = Plan(pp=p, vpp=v, schedule="interleaved")
    for stage in range(p):
        live = live_per_chunk(plan, stage, rounds * p)
        assert tuple(live) in fullest(interleaved(p, v, stage, rounds * p), v)


def test_in_symbols_it_is_the_smaller_of_both() -> None:
    m: Any = sympy.Symbol("m", positive=True, integer=True)
    (live,) = live_per_chunk(Plan(pp=4, schedule="1f1b"), 1, m)
    assert live == sympy.Min(3, m)
    assert live_per_chunk(Plan(pp=4, schedule="gpipe"), 1, m) == [m]
