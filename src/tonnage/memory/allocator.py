"""PyTorch's caching allocator: from the tensors that live to the memory that is held.

A model of ``c10/cuda/CUDACachingAllocator.cpp``. The driver hands out segments; the
allocator cuts them into blocks and keeps what is freed. Three counters follow: *allocated*
(blocks in use), *reserved* (segments), and what is free inside segments and cannot serve
the next request is fragmentation.

The rules, each in the function that carries it out:

* a size is rounded up to 512 bytes (`Policy.round`);
* up to 1 MiB is cut from 2 MiB segments (the small pool), up to 10 MiB from 20 MiB ones,
  and more gets a segment of its own, rounded up to 2 MiB (`Policy.segment_bytes`);
* the smallest free block that is large enough serves, the lowest address among equals;
  a pool and a stream never borrow from another (`Allocator._best_fit`);
* what is left of a block is split off, from 512 bytes in the small pool and over 1 MiB in
  the large one (`Policy.splits`);
* a freed block joins its free neighbours in the segment; segments never join
  (`Allocator._return`);
* a block that another stream has used returns when that stream has passed the point where
  it was freed, as seen at a later request (`Allocator.free`);
* when the driver refuses, all events are waited for, whole free segments go back to it,
  and the request is tried once more (`Allocator._grow`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

MIB = 2**20

ROUND = 512
"""``kMinBlockSize``: every block is a multiple."""

SMALL_REQUEST = MIB
"""``kSmallSize``: the largest request of the small pool."""

SMALL_SEGMENT = 2 * MIB
"""``kSmallBuffer``: a segment of the small pool; large ones are multiples (``kRoundLarge``)."""

MIDDLE_REQUEST = 10 * MIB
"""``kMinLargeAlloc``: from here on a request gets a segment of its own."""

MIDDLE_SEGMENT = 20 * MIB
"""``kLargeBuffer``: the segment that smaller requests of the large pool share."""


class OutOfMemoryError(Exception):
    """The driver refuses a segment, and nothing cached can be given back for it."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What ``PYTORCH_CUDA_ALLOC_CONF`` sets, and how much the driver has.

    Attributes:
        capacity: bytes that segments may take; None: no end.
        max_split_size: blocks of at least this size are not split, and serve only requests
            of at least this size; None: no limit.
        garbage_collection_threshold: share of the capacity above which unused segments are
            given back before a new one is asked for; None: never.
    """

    capacity: int | None = None
    max_split_size: int | None = None
    garbage_collection_threshold: float | None = None

    @staticmethod
    def round(size: int) -> int:
        """The bytes that a request of ``size`` takes."""
        return max(ROUND, -(-size // ROUND) * ROUND)

    @staticmethod
    def segment_bytes(size: int) -> int:
        """The segment that is asked for when no block serves a (rounded) size."""
        if size <= SMALL_REQUEST:
            return SMALL_SEGMENT
        if size < MIDDLE_REQUEST:
            return MIDDLE_SEGMENT
        return -(-size // SMALL_SEGMENT) * SMALL_SEGMENT

    def splits(self, size: int, rest: int, *, small: bool) -> bool:
        """Whether a block that has ``rest`` to spare over ``size`` is cut."""
        if small:
            return rest >= ROUND
        return rest > SMALL_REQUEST and (self.max_split_size is None or size < self.max_split_size)

    def serves(self, size: int, block: int) -> bool:
        """Whether a free block may serve a request that it is large enough for."""
        limit = self.max_split_size
        if limit is None:
            return True
        if size < limit:
            return block < limit
        return block < size + MIDDLE_SEGMENT


class Block:
    """A piece of a segment.

    Attributes:
        address: where it starts.
        size: its bytes.
        pool: the free blocks that it belongs among.
        used: whether it is allocated, or waits for another stream.
        before: its left neighbour in the segment.
        after: its right neighbour in the segment.
        born: the pool's count of requests when it was last freed.
    """

    __slots__ = ("address", "after", "before", "born", "pool", "size", "used")

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.used = False
        self.before: Block | None = None
        self.after: Block | None = None
        self.born = 0

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.before is None and self.after is None


class Pool:
    """The free blocks of one size class on one stream, smallest first."""

    __slots__ = ("free", "requests", "small")

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.free: list[tuple[int, int, Block]] = []
        self.requests = 0

    def add(self, block: Block) -> None:
        """Put a block where best fit finds it."""
        block.born = self.requests
        insort(self.free, (block.size, block.address, block))

    def remove(self, block: Block) -> None:
        """Take a block out."""
        del self.free[bisect_left(self.free, (block.size, block.address))]


class Allocator:
    """One device's allocator. Deterministic: the same requests give the same addresses.

    Attributes:
        allocated: bytes of blocks in use; a freed one that waits for a stream is not.
        reserved: bytes of segments.
        peak_allocated: the most that ``allocated`` has been.
        peak_reserved: the most that ``reserved`` has been.
        retries: how often the driver refused and cached segments were given back.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.allocated = 0
        self.reserved = 0
        self.peak_allocated = 0
        self.peak_reserved = 0
        self.retries = 0
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._heads: dict[int, Block] = {}
        self._waiting: list[tuple[float, int, Block]] = []
        self._next_address = 0

    def malloc(self, size: int, *, stream: int = 0, now: float = 0.0) -> Block:
        """A block of at least ``size`` bytes.

        Args:
            size: bytes asked for.
            stream: the stream that it is for.
            now: the host's clock, in seconds: events up to it have been seen.

        Raises:
            OutOfMemoryError: there is none to be had.
        """
        if self._waiting:
            self._collect(now)
        size = self.policy.round(size)
        pool = self._pool(stream, small=size <= SMALL_REQUEST)
        pool.requests += 1
        block = self._best_fit(pool, size) or self._grow(pool, size)
        rest = block.size - size
        if rest and self.policy.splits(size, rest, small=pool.small):
            self._cut(block, size)
        block.used = True
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def free(self, block: Block, *, ready: float = 0.0) -> None:
        """Give a block back.

        Args:
            block: what `malloc` returned.
            ready: when every other stream that has used it (``record_stream``) reaches the
                point of this call, on the clock of ``now``; 0: no other stream has.
        """
        self.allocated -= block.size
        if ready > 0.0:
            heapq.heappush(self._waiting, (ready, block.address, block))
        else:
            self._return(block)

    def empty_cache(self) -> None:
        """Wait for all streams, and give every segment that is wholly free to the driver."""
        self._collect(float("inf"))
        for head in [head for head in self._heads.values() if head.whole and not head.used]:
            self._release(head)

    def segments(self) -> Iterator[tuple[Block, ...]]:
        """The blocks of each segment, in the order of their addresses."""
        for head in self._heads.values():
            blocks, block = [], head
            while True:
                blocks.append(block)
                if block.after is None:
                    break
                block = block.after
            yield tuple(blocks)

    @property
    def waiting(self) -> int:
        """Bytes of freed blocks that wait for another stream."""
        return sum(block.size for _, _, block in self._waiting)

    def _pool(self, stream: int, *, small: bool) -> Pool:
        key = (stream, small)
        if key not in self._pools:
            self._pools[key] = Pool(small=small)
        return self._pools[key]

    def _best_fit(self, pool: Pool, size: int) -> Block | None:
        """Take out the smallest free block that serves, the lowest address among equals."""
        place = bisect_left(pool.free, (size,))
        if place == len(pool.free):
            return None
        found, _, block = pool.free[place]
        if not self.policy.serves(size, found):
            return None
        del pool.free[place]
        return block

    def _grow(self, pool: Pool, size: int) -> Block:
        """A new segment; the cache is emptied for it where the driver has no more."""
        wanted = self.policy.segment_bytes(size)
        self._collect_garbage(wanted)
        if not self._has(wanted):
            self.retries += 1
            if not self._release_large(pool, size, wanted):
                self.empty_cache()
            if not self._has(wanted):
                raise OutOfMemoryError(f"{wanted} bytes beside {self.reserved} reserved")
        block = Block(self._next_address, wanted, pool)
        self._next_address += wanted
        self._heads[block.address] = block
        self.reserved += wanted
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _has(self, wanted: int) -> bool:
        capacity = self.policy.capacity
        return capacity is None or self.reserved + wanted <= capacity

    def _cut(self, block: Block, size: int) -> None:
        """Split off what a block has over ``size``, as a free block to its right."""
        rest = Block(block.address + size, block.size - size, block.pool)
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        block.pool.add(rest)

    def _return(self, block: Block) -> None:
        """Mark a block free and join it with its free neighbours."""
        pool = block.pool
        block.used = False
        left, right = block.before, block.after
        if right is not None and not right.used:
            pool.remove(right)
            self._join(block, right)
        if left is not None and not left.used:
            pool.remove(left)
            self._join(left, block)
            block = left
        pool.add(block)

    @staticmethod
    def _join(left: Block, right: Block) -> None:
        left.size += right.size
        left.after = right.after
        if left.after is not None:
            left.after.before = left

    def _collect(self, now: float) -> None:
        """Take back the blocks whose events the host can see to be done."""
        while self._waiting and self._waiting[0][0] <= now:
            self._return(heapq.heappop(self._waiting)[2])

    def _release(self, head: Block) -> None:
        head.pool.remove(head)
        del self._heads[head.address]
        self.reserved -= head.size

    def _release_large(self, pool: Pool, size: int, wanted: int) -> bool:
        """With a split limit: give back unsplit large blocks of the stream, largest first.

        The smallest one that is enough by itself, else as many as it takes.
        """
        limit = self.policy.max_split_size
        if limit is None:
            return False
        wholes = [b for s, _, b in pool.free if s >= max(size, limit) and b.whole]
        if wholes:
            self._release(wholes[0])
            return self._has(wanted)
        for block in [b for s, _, b in reversed(pool.free) if s >= limit and b.whole]:
            self._release(block)
            if self._has(wanted):
                return True
        return False

    def _collect_garbage(self, wanted: int) -> None:
        """Above the threshold, give back unsplit large blocks that are older than average.

        The age of a block is the number of its pool's requests since it was freed.
        """
        share, capacity = self.policy.garbage_collection_threshold, self.policy.capacity
        if share is None or capacity is None:
            return
        target = self.reserved + wanted - int(share * capacity)
        while target > 0:
            ages = {
                block: pool.requests - block.born
                for pool in self._pools.values()
                if not pool.small
                for _, _, block in pool.free
                if block.whole
            }
            old = [block for block, age in ages.items() if age * len(ages) >= sum(ages.values())]
            if not old:
                return
            for block in old:
                if target > 0:
                    target -= block.size
                    self._release(block)
