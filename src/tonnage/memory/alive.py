"""Activations of all micro-batches that a stage holds at once, at each kind of moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tonnage.algebra import Number, is_zero, largest, maximum, minimum, total
from tonnage.ledger import StageLedger
from tonnage.ledger.mtp import predictors_keep
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.shared import shared_tensors
from tonnage.memory.activations import kept_by_chunk, late_by_chunk, saved_by
from tonnage.memory.host import device_limit
from tonnage.memory.schedule import Held, fullest
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Bytes that one micro-batch leaves on each part of a stage.

    Attributes:
        kept: by chunk, from its forward to its backward pass.
        late: by chunk, from there until its weights' gradients are made.
        entry: kept by the embedding, with the first chunk.
        shared: kept once for all layers, with the first chunk.
        head: kept by the head and by predictors of further tokens, with the last chunk.
        limit: what the layers' part takes on the device at most; None: all of it.
    """

    kept: tuple[Number, ...]
    late: tuple[Number, ...]
    entry: Number
    shared: Number
    head: Number
    limit: Number | None = None
    _seen: dict[int, tuple[Held, Number]] = field(default_factory=dict, repr=False, compare=False)

    def inside(self, held: Held) -> Number:
        """What the layers keep of all micro-batches that are held, wherever it lies."""
        inside = total(n * size for n, size in zip(held.kept, self.kept, strict=True))
        if all(is_zero(n) for n in held.late):  # as under most schedules
            return inside
        return inside + total(n * size for n, size in zip(held.late, self.late, strict=True))

    def bytes(self, held: Held) -> Number:
        """Of all micro-batches that are held, what is on the device.

        Of one moment several figures are asked for: the sum over chunks is made once.
        """
        key = id(held)
        if key not in self._seen:
            self._seen[key] = held, self._on_device(held)  # held on to, so is the key
        return self._seen[key][1]

    def _on_device(self, held: Held) -> Number:
        inside = self.inside(held)
        if self.limit is not None:
            inside = minimum(inside, self.limit)
        return inside + held.kept[0] * (self.entry + self.shared) + held.kept[-1] * self.head

    def backward(self, held: Held) -> Number:
        """As the backward pass that follows leaves the head and enters the last layer."""
        return self.bytes(held) - (self.head if held.back == len(self.kept) - 1 else 0)

    def without_one(self, held: Held) -> Number:
        """Once the backward pass that follows has gone through the chunk."""
        return maximum(self.backward(held) - self._freed(held), 0)

    def others(self, held: Held) -> Number:
        """The same, without what the embedding keeps of the micro-batch at work."""
        own = self.entry + self.shared if held.back == 0 else 0
        return maximum(self.without_one(held) - own, 0)

    def leaving(self, held: Held) -> Number:
        """Once the backward pass that follows has reached the embedding."""
        return maximum(self.bytes(held) - self._freed(held) - self.entry, 0)

    def _freed(self, held: Held) -> Number:
        """What the backward pass that follows frees of its chunk's layers."""
        assert held.back is not None
        return self.kept[held.back] - (self.late[held.back] if held.puts_off else 0)


def micro_batch(setting: Setting, ledger: StageLedger) -> MicroBatch:
    """What one micro-batch leaves on each part of a stage."""
    chunks = ledger.stage.chunks
    return MicroBatch(
        kept=tuple(
            kept_by_chunk(setting, ledger, chunk, index) for index, chunk in enumerate(chunks)
        ),
        late=tuple(late_by_chunk(setting, ledger, chunk) for chunk in chunks),
        entry=saved_by(setting, ledger.embedding),
        shared=union_bytes(shared_tensors(setting)),
        head=saved_by(setting, ledger.head) + predictors_keep(setting, ledger.predictors),
        limit=device_limit(setting, ledger),
    )


@dataclass(frozen=True, kw_only=True)
class Alive:
    """Bytes of activations at the moments of a step at which a stage holds most.

    Attributes:
        forward: after a forward pass.
        loss: after one of the last chunk.
        first: as a backward pass enters the last layer of its chunk.
        head: as a backward pass enters the head.
        second: as the next backward pass enters the last layer.
        others: of other micro-batches, as a backward pass reaches the first layer.
        late: after a pass that put its weights' gradients off; 0 where none does.
        end: as a backward pass leaves the first layer of the first chunk.
        passes: through a chunk, at the end of warm-up.
    """

    forward: Number
    loss: Number
    first: Number
    head: Number
    second: Number
    others: Number
    late: Number
    end: Number
    passes: Number


def alive(setting: Setting, ledger: StageLedger) -> Alive:
    """The most that a stage holds, over the moments that can hold most."""
    found = micro_batch(setting, ledger)
    moments = _moments(setting, ledger)
    last = len(found.kept) - 1

    def most(size: Callable[[Held], Number], which: Iterable[Held]) -> Number:
        return largest(size(held) for held in which)

    forward = [held for held in moments if held.made == "forward"]
    back = [held for held in moments if held.back is not None]
    leaving = [held for held in back if held.back == 0]
    return Alive(
        forward=most(found.bytes, forward),
        loss=most(found.bytes, [held for held in forward if held.chunk == last]),
        first=most(found.backward, back),
        head=most(found.bytes, [held for held in back if held.back == last]),
        second=most(found.without_one, back),
        others=most(found.others, [held for held in back if not held.puts_off]),
        late=most(found.bytes, [held for held in moments if held.made == "input"]),
        end=most(found.leaving, leaving),
        passes=moments[0].all,
    )


def _moments(setting: Setting, ledger: StageLedger) -> tuple[Held, ...]:
    """The moments at which a stage can hold most."""
    plan, chunks = setting.plan, ledger.stage.chunks
    alike: tuple[int, ...] = ()
    if plan.recompute_method != "block" or plan.recompute != "full":
        # The ends also keep what the embedding and the head do.
        last = len(chunks) - 1
        inner = {chunk: index for index, chunk in enumerate(chunks) if 0 < index < last}
        alike = tuple(
            inner[chunk] if 0 < index < last else index for index, chunk in enumerate(chunks)
        )
    return fullest(plan, ledger.stage.index, setting.grad_acc, alike)


def live_inside(setting: Setting, ledger: StageLedger) -> Number:
    """What the layers of a stage keep of all micro-batches in flight, wherever it lies."""
    found = micro_batch(setting, ledger)
    moments = _moments(setting, ledger)
    return largest(found.inside(held) for held in moments)


def live_layers(setting: Setting, ledger: StageLedger) -> Number:
    """Layers times micro-batches in flight."""
    moments = fullest(setting.plan, ledger.stage.index, setting.grad_acc)
    lengths = [len(chunk) for chunk in ledger.stage.chunks]
    return largest(
        total(count * length for count, length in zip(held.kept, lengths, strict=True))
        for held in moments
    )
