"""The caching allocator against sequences worked out by hand, and what always holds."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.memory.allocator import MIB, Allocator, Block, OutOfMemoryError, Policy


def test_sizes_are_rounded_to_512_bytes() -> None:
    assert [Policy.round(size) for size in (1, 512, 513, 1000)] == [512, 512, 1024, 1024]


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB - 512, 12 * MIB),
        (100 * MIB + 512, 102 * MIB),
    ],
)
def test_segments_by_size(size: int, segment: int) -> None:
    allocator = Allocator()
    allocator.malloc(size)
    assert (allocator.allocated, allocator.reserved) == (size, segment)


def test_small_requests_share_a_segment_and_large_ones_another() -> None:
    allocator = Allocator()
    for _ in range(4):
        allocator.malloc(512 * 1024)
    assert allocator.reserved == 2 * MIB
    for _ in range(5):
        allocator.malloc(4 * MIB)
    assert allocator.reserved == 22 * MIB


def test_the_smallest_block_that_fits_serves_and_the_lowest_among_equals() -> None:
    allocator = Allocator()
    blocks = [allocator.malloc(size * MIB) for size in (64, 32, 16, 32)]
    guards = [block.address for block in blocks]
    for block in blocks:
        allocator.free(block)
    assert allocator.malloc(20 * MIB).address == guards[1]
    assert allocator.malloc(13 * MIB).address == guards[2]
    assert allocator.reserved == 144 * MIB


def test_a_large_rest_of_a_mebibyte_is_not_split_off() -> None:
    allocator = Allocator()
    allocator.free(allocator.malloc(32 * MIB))
    assert allocator.malloc(31 * MIB).size == 32 * MIB
    allocator = Allocator()
    allocator.free(allocator.malloc(32 * MIB))
    assert allocator.malloc(31 * MIB - 512).size == 31 * MIB - 512


def test_free_neighbours_join_and_segments_do_not() -> None:
    allocator = Allocator()
    allocator.free(allocator.malloc(64 * MIB))
    one, other = allocator.malloc(32 * MIB), allocator.malloc(32 * MIB)
    allocator.free(one)
    allocator.free(other)
    assert allocator.malloc(64 * MIB).address == one.address
    two = [allocator.malloc(32 * MIB) for _ in range(2)]
    for block in two:
        allocator.free(block)
    allocator.malloc(64 * MIB)
    assert allocator.reserved == (64 + 2 * 32 + 64) * MIB


def test_a_lasting_tensor_spoils_a_large_block() -> None:
    """As Adam's moments do, which are made when the first step's activations are cached."""
    allocator = Allocator()
    allocator.free(allocator.malloc(1024 * MIB))
    allocator.malloc(2 * MIB)
    assert allocator.reserved == 1024 * MIB
    allocator.malloc(1024 * MIB)
    assert allocator.reserved == 2048 * MIB


def test_streams_do_not_borrow_from_each_other() -> None:
    allocator = Allocator()
    allocator.free(allocator.malloc(32 * MIB, stream=1))
    allocator.malloc(32 * MIB)
    assert allocator.reserved == 64 * MIB


def test_a_block_returns_when_the_other_stream_is_done() -> None:
    allocator = Allocator()
    block = allocator.malloc(32 * MIB, now=1.0)
    allocator.free(block, ready=5.0)
    assert (allocator.allocated, allocator.waiting) == (0, 32 * MIB)
    assert allocator.malloc(32 * MIB, now=4.0).address != block.address
    assert allocator.malloc(32 * MIB, now=5.0).address == block.address


def test_whole_free_segments_are_given_back_before_it_fails() -> None:
    allocator = Allocator(Policy(capacity=100 * MIB))
    kept = allocator.malloc(20 * MIB)
    allocator.free(allocator.malloc(60 * MIB), ready=9.0)
    allocator.malloc(80 * MIB, now=1.0)
    assert (allocator.reserved, allocator.retries) == (100 * MIB, 1)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(20 * MIB)
    allocator.free(kept)


def test_a_segment_with_one_live_block_stays() -> None:
    allocator = Allocator(Policy(capacity=100 * MIB))
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(2 * MIB)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(60 * MIB)


def test_blocks_over_the_split_limit_serve_only_requests_over_it() -> None:
    allocator = Allocator(Policy(max_split_size=32 * MIB))
    large = allocator.malloc(64 * MIB)
    allocator.free(large)
    allocator.malloc(16 * MIB)
    assert allocator.reserved == 80 * MIB
    block = allocator.malloc(50 * MIB)
    assert (block.address, block.size) == (large.address, 64 * MIB)


def test_old_segments_are_given_back_above_the_threshold() -> None:
    allocator = Allocator(Policy(capacity=200 * MIB, garbage_collection_threshold=0.5))
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(80 * MIB)
    assert (allocator.reserved, allocator.retries) == (80 * MIB, 0)


Step = tuple[int, int, int]
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 80 * MIB), st.integers(0, 1)), max_size=60
)


def play(allocator: Allocator, steps: list[Step]) -> list[Block]:
    """Take a block, or give back one of those that are held."""
    held: list[Block] = []
    for now, (choice, size, stream) in enumerate(steps):
        if choice == 0 and held:
            allocator.free(held.pop(size % len(held)), ready=float(now + size % 3))
        else:
            scaled = size if choice > 1 else size % (2 * MIB) + 1
            held.append(allocator.malloc(scaled, stream=stream, now=float(now)))
    return held


@given(STEPS)
def test_what_always_holds(steps: list[Step]) -> None:
    allocator = Allocator()
    held = play(allocator, steps)
    assert allocator.reserved >= allocator.allocated + allocator.waiting
    assert allocator.allocated == sum(block.size for block in held)
    assert allocator.peak_reserved >= allocator.peak_allocated >= allocator.allocated
    segments = list(allocator.segments())
    assert sum(block.size for blocks in segments for block in blocks) == allocator.reserved
    for blocks in segments:
        for left, right in itertools.pairwise(blocks):
            assert left.address + left.size == right.address
    addresses = Counter(block.address for blocks in segments for block in blocks)
    assert max(addresses.values(), default=1) == 1


@given(STEPS)
def test_freeing_everything_gives_everything_back(steps: list[Step]) -> None:
    allocator = Allocator()
    for block in play(allocator, steps):
        allocator.free(block)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved, allocator.waiting) == (0, 0, 0)
    assert list(allocator.segments()) == []


@given(STEPS)
def test_the_same_requests_give_the_same_addresses(steps: list[Step]) -> None:
    first, second = (play(Allocator(), steps) for _ in range(2))
    assert [block.address for block in first] == [block.address for block in second]
