"""What a dry run recorded: every storage from birth to death, FLOPs, and collectives."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

Category: TypeAlias = Literal[
    "parameter",
    "gathered parameter",
    "communication buffer",
    "buffer",
    "input",
    "gradient",
    "optimizer state",
    "step counter",
    "activation",
    "temporary",
]
Phase: TypeAlias = Literal["outside", "forward", "loss", "backward", "recompute", "step"]

_PLACE = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """One storage. Tensors that share it are one allocation.

    Attributes:
        bytes: its size.
        category: what it is; decided at the end, so that a gradient is one from its birth.
        operator: the operator that wrote it first.
        module: path of the module whose forward pass made it, or whose backward pass did.
        saver: path of the module that first saved it for backward; None: nobody's hook did.
        phase: part of the step in which it was made.
        born: clock when it was allocated. The clock counts allocations and releases.
        died: clock when it was released; None: alive at the end of the recording.
        shape: shape of the first tensor on it.
        format: PyTorch's name of that tensor's number format.
    """

    bytes: int
    category: Category
    operator: str
    module: str
    saver: str | None
    phase: Phase
    born: int
    died: int | None
    shape: tuple[int, ...]
    format: str

    def alive_at(self, clock: int) -> bool:
        """Whether it is allocated at that time."""
        return self.born <= clock and (self.died is None or clock < self.died)


@dataclass(frozen=True, kw_only=True)
class CollectiveCall:
    """One collective as it was called.

    Attributes:
        kind: the collective.
        bytes: the full tensor, the convention of `tonnage.ledger.Collective`.
        group: ranks that take part.
        phase: part of the step.
        module: path of the module that called it.
    """

    kind: str
    bytes: int
    group: int
    phase: Phase
    module: str


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is alive at one time.

    Attributes:
        clock: the time.
        phase: part of the step.
        bytes: all of it.
        categories: by category, the largest first.
    """

    clock: int
    phase: Phase
    bytes: int
    categories: dict[Category, int]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recording.

    Attributes:
        allocations: every storage, by birth.
        phases: when each part of the step began, in order.
        flops: FLOPs by module path and phase.
        collectives: in order of their calls.
        notes: what was assumed because a fake tensor has no values.
    """

    allocations: tuple[Allocation, ...]
    phases: tuple[tuple[int, Phase], ...]
    flops: dict[tuple[str, Phase], int]
    collectives: tuple[CollectiveCall, ...]
    notes: tuple[str, ...]

    @cached_property
    def levels(self) -> tuple[tuple[int, int], ...]:
        """Bytes alive after every allocation and release: (clock, bytes)."""
        return _levels(self.allocations)

    @property
    def peak(self) -> Moment:
        """The first moment at which most is alive."""
        clock, _ = max(self.levels, key=lambda level: level[1], default=(0, 0))
        return self.at(clock)

    def peak_of(self, phase: Phase) -> Moment | None:
        """The moment of a part of the step at which most is alive; None: it did not run."""
        found = [level for level in self.levels if self.phase_at(level[0]) == phase]
        return self.at(max(found, key=lambda level: level[1])[0]) if found else None

    def at(self, clock: int) -> Moment:
        """What is alive at a time."""
        sizes: Counter[Category] = Counter()
        for allocation in self.allocations:
            if allocation.alive_at(clock):
                sizes[allocation.category] += allocation.bytes
        return Moment(
            clock=clock,
            phase=self.phase_at(clock),
            bytes=sum(sizes.values()),
            categories=dict(sizes.most_common()),
        )

    def phase_at(self, clock: int) -> Phase:
        """The part of the step that runs at a time."""
        began: Phase = "outside"
        for start, phase in self.phases:
            if start > clock:
                break
            began = phase
        return began

    def most_of(self, category: Category) -> int:
        """The most bytes of a category that are alive at once."""
        chosen = tuple(a for a in self.allocations if a.category == category)
        return max((level for _, level in _levels(chosen)), default=0)

    def saved(self) -> tuple[Allocation, ...]:
        """Activations that were alive when a backward pass began."""
        return tuple(a for a in self.allocations if a.category == "activation")

    def saved_by(self) -> dict[str, int]:
        """Bytes of saved activations by the module that keeps them."""
        sizes: Counter[str] = Counter()
        for allocation in self.saved():
            sizes[allocation.module if allocation.saver is None else allocation.saver] += (
                allocation.bytes
            )
        return dict(sizes)

    @property
    def phases_seen(self) -> tuple[Phase, ...]:
        """The parts of the step that ran, each once."""
        return tuple(dict.fromkeys(phase for _, phase in self.phases))

    def saved_by_kind(self) -> dict[str, tuple[int, int]]:
        """The same with all layers together: (modules, bytes) by path without places."""
        found: dict[str, tuple[int, int]] = {}
        for path, size in self.saved_by().items():
            count, before = found.get(without_places(path), (0, 0))
            found[without_places(path)] = (count + 1, before + size)
        return found

    @property
    def sent(self) -> dict[tuple[str, int, Phase], tuple[int, int]]:
        """Collectives by kind, ranks that take part and part of the step: (calls, full bytes)."""
        found: dict[tuple[str, int, Phase], tuple[int, int]] = {}
        for call in self.collectives:
            calls, size = found.get((call.kind, call.group, call.phase), (0, 0))
            found[call.kind, call.group, call.phase] = (calls + 1, size + call.bytes)
        return found

    def summary(self) -> dict[str, object]:
        """The recording in plain numbers, without its list of allocations."""
        peak = self.peak
        moments = {phase: self.peak_of(phase) for phase in self.phases_seen}
        return {
            "peak": {"phase": peak.phase, "bytes": peak.bytes, "categories": peak.categories},
            "peak_by_phase": {name: at.bytes for name, at in moments.items() if at is not None},
            "saved_by_module": self.saved_by(),
            "flops": {phase: self.total_flops([phase]) for phase in self.phases_seen},
            "collectives": [dataclasses.asdict(call) for call in self.collectives],
            "allocations": len(self.allocations),
        }

    def total_flops(self, phases: Iterable[Phase] | None = None) -> int:
        """FLOPs of some parts of the step, or of all."""
        chosen = None if phases is None else set(phases)
        return sum(n for (_, phase), n in self.flops.items() if chosen is None or phase in chosen)


def without_places(path: str) -> str:
    """A module's path below its root, with the places in lists left out: ``layers.*.mlp``."""
    return _PLACE.sub(".*", path).partition(".")[2] or path


def _levels(allocations: Iterable[Allocation]) -> tuple[tuple[int, int], ...]:
    changes: list[tuple[int, int]] = []
    for allocation in allocations:
        changes.append((allocation.born, allocation.bytes))
        if allocation.died is not None:
            changes.append((allocation.died, -allocation.bytes))
    levels, alive = [], 0
    for clock, change in sorted(changes):
        alive += change
        levels.append((clock, alive))
    return tuple(levels)
