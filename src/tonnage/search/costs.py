"""Columns that the bounds of plans are sums of: seconds and bytes of a model's parts.

`tonnage.search.pieces` fills them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tonnage.ledger.operation import Phase
from tonnage.plan.schedule import OVERLAPPED
from tonnage.search.exchange import Exchange

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Work:
    """Seconds of one micro-batch; kinds of layers by rows of degrees, ``[kind, row]``.

    Attributes:
        forward: of the forward pass.
        both: of both passes.
        hidden: of each, the experts' exchange that schedules of `OVERLAPPED` hide.
        ahead: compute of the forward pass.
        late: compute of the weights' gradients, which some schedules put off.
        compute: of both passes.
        selected: what each selective mode repeats, by its modules.
        embedding: both passes before the first layer, by row.
        head: both passes after the last layer, with each loss, by row.
        window: compute of one micro-batch that what replicas exchange can hide behind.
    """

    forward: Floats
    both: Floats
    hidden: tuple[Floats, Floats]
    ahead: Floats
    late: Floats
    compute: Floats
    selected: dict[tuple[str, ...], Floats]
    embedding: Floats
    head: dict[str, Floats]
    window: Window

    def passes(self, schedule: str) -> tuple[Floats, Floats]:
        """The forward pass, and both, without what a schedule hides."""
        if schedule not in OVERLAPPED:
            return self.forward, self.both
        forward, both = self.hidden
        return self.forward - forward, self.both - both


@dataclass(frozen=True, kw_only=True)
class Window:
    """Compute of one micro-batch without recomputation, by phase.

    Attributes:
        layers: of each kind of layer, ``[kind, row]``.
        ends: no less than of the embedding and of the head, by row.
    """

    layers: Mapping[Phase, Floats]
    ends: tuple[Mapping[Phase, Floats], Mapping[Phase, Floats]]


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Bytes that wait for collectives (`tonnage.memory.reserved.reserved_bound`), at the least.

    Attributes:
        once: what collectives touch in one pass of each kind of layer, ``[kind, row]``.
        queue: what a full queue of launches touches, by row.
    """

    once: Floats
    queue: Floats


@dataclass(frozen=True, kw_only=True)
class Room:
    """Bytes of activations; kinds of layers by rows of degrees, ``[kind, row]``.

    Attributes:
        kept: what one micro-batch leaves between its passes, by the modules recomputed.
        beside: what lives beside that in any layer's backward pass, by the modules recomputed.
        entry: the input of a layer, by row.
        waiting: what can wait for collectives, where reserved memory has a closed bound of its own;
            else None.
        buffered: whether a stage has a buffer for each that it receives in a step.
        saved: what one micro-batch leaves of embedding and head, by row.
        logits: logits and their copies with each loss, by row.
        outside: what lies outside the allocator, by row.
    """

    kept: dict[tuple[str, ...], Floats]
    beside: dict[tuple[str, ...], Floats]
    entry: Floats
    waiting: Waiting | None
    buffered: bool
    saved: tuple[Floats, Floats]
    logits: dict[str, Floats]
    outside: Floats


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes of states under one ZeRO stage; kinds of layers by shards, ``[kind, shard]``.

    Attributes:
        resting: what is there while layers run.
        filled: the same, once a micro-batch has left its gradients.
        stepping: what is there in a step of the optimizer, its temporaries among it.
        ends: all three of the embedding, and of the head, by shard.
        exchange: seconds of a step beside its micro-batches.
    """

    resting: Floats
    filled: Floats
    stepping: Floats
    ends: tuple[tuple[Floats, Floats, Floats], tuple[Floats, Floats, Floats]]
    exchange: Exchange


T = TypeVar("T")


def least(found: Sequence[T]) -> T:
    """Floors that hold for each of some runs: field by field the smallest figure.

    Of a window the largest: the more compute, the more traffic it hides.
    """
    if len(found) == 1:
        return found[0]
    joined: T = _each(found, np.minimum)
    return joined


def _each(found: Sequence[Any], choose: np.ufunc) -> Any:
    """The arrays of things that are built alike, joined one by one."""
    first = found[0]
    if isinstance(first, np.ndarray):
        return choose.reduce(found)
    if first is None or isinstance(first, bool):
        return first
    if isinstance(first, dict):
        return {key: _each([one[key] for one in found], choose) for key in first}
    if isinstance(first, tuple):
        return tuple(_each(each, choose) for each in zip(*found, strict=True))
    choose = np.maximum if isinstance(first, Window) else choose
    names = [field.name for field in dataclasses.fields(first)]
    return type(first)(**{n: _each([getattr(one, n) for one in found], choose) for n in names})
