"""Seconds of something that PyTorch does on a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

MOST_CALLS = 10_000


class Clock(Protocol):
    """Says how long one call takes; tests have one that measures nothing."""

    def seconds(self, call: Callable[[], object]) -> float:
        """Seconds of one call."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """Times calls in rows that are long enough to be timed, with the device waited for.

    Within a row the host runs ahead of the device, as it does in a training step.

    Attributes:
        device: what the calls run on.
        least: seconds of a row at least.
        rows: rows, of which the fastest counts: whatever else the machine does only adds time.
    """

    device: torch.device
    least: float = 0.02
    rows: int = 5

    def seconds(self, call: Callable[[], object]) -> float:
        """Seconds of one call, after one that is not counted."""
        call()
        first = self._row(call, 1)
        count = min(max(1, round(self.least / max(first, 1e-9))), MOST_CALLS)
        return min(self._row(call, count) / count for _ in range(self.rows))

    def _row(self, call: Callable[[], object], count: int) -> float:
        self._wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
