"""What is measured between the processes of one node, under torchrun."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import distributed

from tonnage.errors import NotModelledError
from tonnage.timing.calibration import CollectiveTime, Kind

SIZES: Final = tuple(2**power for power in range(10, 29, 2))
"""Bytes of the full tensor."""

KINDS: Final[tuple[Kind, ...]] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "send",
)
ROWS: Final = 5
LEAST: Final = 0.02
MOST_CALLS: Final = 1000


def launched_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun has started."""
    return distributed.is_available() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def process_group(device: torch.device) -> Iterator[int]:
    """Join the processes that torchrun has started; gives this one's rank.

    Raises:
        NotModelledError: they are on several nodes, whose network has constants that only
            steps determine.
    """
    world, local = (int(os.environ[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if world != local:
        raise NotModelledError(
            field="WORLD_SIZE",
            value=world,
            problem=f"processes on nodes of {local}: collectives are measured inside one node",
            accepted=str(local),
            hint="--from fits the network's constants to measured steps",
        )
    backend = "gloo" if device.type == "cpu" else distributed.get_default_backend_for_device(device)
    distributed.init_process_group(backend)
    try:
        yield distributed.get_rank()
    finally:
        distributed.destroy_process_group()


@dataclass(frozen=True, kw_only=True)
class Links:
    """Measures collectives over groups of two ranks, four, and so on to all.

    Attributes:
        device: this process's device.
        slowest: seconds of the longest call; larger tensors are left out.
        seen: called after each measurement, for a progress bar.
    """

    device: torch.device
    slowest: float
    seen: Callable[[], None] = lambda: None

    def measure(self) -> tuple[CollectiveTime, ...]:
        """Every kind that the backend has, over every group and size."""
        world = distributed.get_world_size()
        sizes = [2**power for power in range(1, world.bit_length()) if 2**power < world] + [world]
        rows: list[CollectiveTime] = []
        for ranks in sizes:
            group = distributed.new_group(list(range(ranks)))
            if distributed.get_rank() < ranks:
                for kind in KINDS if ranks == world else KINDS[:-1]:
                    rows += self._kind(kind, ranks, group)
            distributed.barrier()
        return tuple(rows)

    def _kind(self, kind: Kind, ranks: int, group: Any) -> Iterator[CollectiveTime]:
        for size in SIZES:
            call = self._call(kind, size // 4 // ranks * ranks, ranks, group)
            try:
                seconds = self._timed(call, group)
            except RuntimeError as error:  # a kind that the backend does not have
                if "not" not in str(error) or "support" not in str(error):
                    raise
                return
            self.seen()
            yield CollectiveTime(kind=kind, bytes=size, ranks=ranks, seconds=seconds)
            if seconds > self.slowest / 4:
                return

    def _call(self, kind: Kind, elements: int, ranks: int, group: Any) -> Callable[[], object]:
        whole = torch.zeros(elements, device=self.device)
        part = torch.zeros(elements // ranks, device=self.device)
        rank = distributed.get_rank()
        if kind == "all_reduce":
            return lambda: distributed.all_reduce(whole, group=group)
        if kind == "all_gather":
            return lambda: distributed.all_gather_single(whole, part, group=group)
        if kind == "reduce_scatter":
            return lambda: distributed.reduce_scatter_single(part, whole, group=group)
        if kind == "all_to_all":
            other = torch.zeros_like(whole)
            return lambda: distributed.all_to_all_single(other, whole, group=group)
        if rank > 1:
            return lambda: None
        if rank == 1:
            return lambda: distributed.recv(whole, src=0, group=group)
        return lambda: distributed.send(whole, dst=1, group=group)

    def _timed(self, call: Callable[[], object], group: Any) -> float:
        """Seconds of one call on the slowest rank, every rank making as many of them."""
        self._row(call, 1, group)
        first = self._row(call, 1, group)
        count = min(max(1, round(LEAST / max(first, 1e-9))), MOST_CALLS)
        return min(self._row(call, count, group) / count for _ in range(ROWS))

    def _row(self, call: Callable[[], object], count: int, group: Any) -> float:
        """Seconds of some calls, as the slowest rank of the group sees them."""
        distributed.barrier(group)
        start = time.perf_counter()
        for _ in range(count):
            call()
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
        taken = torch.tensor([time.perf_counter() - start], device=self.device)
        distributed.all_reduce(taken, op=distributed.ReduceOp.MAX, group=group)
        return float(taken.item())
