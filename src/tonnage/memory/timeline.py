"""Memory as a function of time over one step of one stage, from the replay's allocations."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.memory.allocator import Block
from tonnage.memory.peak import CATEGORIES

TOP = 12
"""Tensors that are named at the peak."""


@dataclass(frozen=True, kw_only=True)
class AtPeak:
    """Storages of one name at the peak.

    Attributes:
        name: what they are.
        category: one of `tonnage.memory.peak.CATEGORIES`.
        count: how many there are.
        bytes: of all of them.
    """

    name: str
    category: str
    count: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Allocated bytes over a step.

    Attributes:
        seconds: the host's clock at each allocation and free, from the start of the step.
        categories: bytes of each category after it.
        phases: the first event of each pass, and what the pass is.
        instants: what happens then, where that is known.
        peak: the event at which most is allocated.
        alive: the largest storages then, those of a name together, largest first.
    """

    seconds: tuple[float, ...]
    categories: dict[str, tuple[int, ...]]
    phases: tuple[tuple[int, str], ...]
    peak: int
    alive: tuple[AtPeak, ...]
    instants: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """All that is allocated at the peak."""
        return sum(series[self.peak] for series in self.categories.values())

    @property
    def peak_phase(self) -> str:
        """The pass in which the peak falls."""
        return [name for start, name in self.phases if start <= self.peak][-1]


class Recorder:
    """Listens to a replay and keeps its last step."""

    def __init__(self) -> None:
        self._names: dict[Block, str] = {}
        self._events: list[tuple[float, str, int, int]] = []
        self._phases: list[tuple[int, str]] = []
        self._before: list[tuple[str, int]] = []

    def step(self) -> None:
        """A step begins: what is alive by now is where it starts from."""
        self._events.clear()
        self._phases.clear()
        self._before = [(name, block.size) for block, name in self._names.items()]

    def phase(self, name: str) -> None:
        """A pass begins."""
        self._phases.append((len(self._events), name))

    def took(self, now: float, name: str, block: Block) -> None:
        """A storage has been allocated."""
        self._names[block] = name
        self._events.append((now, name, block.size, 1))

    def gave(self, now: float, block: Block) -> None:
        """A storage has been freed."""
        self._events.append((now, self._names.pop(block), -block.size, -1))

    def timeline(self) -> Timeline:
        """What has been heard of the last step."""
        level = dict.fromkeys(CATEGORIES, 0)
        held: dict[str, tuple[int, int]] = {}
        for name, size in self._before:
            _add(level, held, name, size, 1)
        series: dict[str, list[int]] = {name: [] for name in CATEGORIES}
        most, peak, alive = -1, 0, dict(held)
        for index, (_, name, size, count) in enumerate(self._events):
            _add(level, held, name, size, count)
            for category, value in level.items():
                series[category].append(value)
            if sum(level.values()) > most:
                most, peak, alive = sum(level.values()), index, dict(held)
        start = self._events[0][0]
        return Timeline(
            seconds=tuple(now - start for now, _, _, _ in self._events),
            categories={name: tuple(values) for name, values in series.items()},
            phases=tuple(self._phases),
            peak=peak,
            alive=_largest(alive),
        )


def _add(
    level: dict[str, int], held: dict[str, tuple[int, int]], name: str, size: int, count: int
) -> None:
    level[category(name)] += size
    number, total = held.get(name, (0, 0))
    held[name] = (number + count, total + size)


def _largest(held: dict[str, tuple[int, int]]) -> tuple[AtPeak, ...]:
    found = [
        AtPeak(name=name, category=category(name), count=count, bytes=size)
        for name, (count, size) in held.items()
        if count
    ]
    return tuple(sorted(found, key=lambda each: (-each.bytes, each.name))[:TOP])


LASTING = {
    "parameters": "parameters",
    "masters": "master_weights",
    "gradients": "gradients",
    "moments": "optimizer_states",
    "buckets": "communication_buffers",
    "received": "communication_buffers",
    "gathered inputs": "communication_buffers",
    "gathered gradients": "communication_buffers",
    "gathered copy": "temporaries",
    "gathered weights": "temporaries",
}


def category(name: str) -> str:
    """The category of a storage."""
    if name in LASTING:
        return LASTING[name]
    if name.startswith("gradient of "):
        return "gradients"
    if name.removeprefix("d ").startswith(("logits", "loss.")):
        return "logits_and_loss"
    return "temporaries" if name.startswith(("d ", "workspace")) else "activations"
