"""When tensors are born and die inside one layer: the walk that finds its transient peak.

A layer's saved tensors are what it leaves behind. On the way there, and on the way back,
other tensors live for a while: a full-width product before it is reduced, the gradient of
a wide activation. Walking the operations in order, with each tensor freed after its last
use, gives the most that is alive at once. The walk is arithmetic only, so columns of
plans take it as ints do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, is_one, maximum, total
from tonnage.dtype import dtype
from tonnage.ledger import Operation, Operations, Tensor
from tonnage.memory.gradients import made_bytes
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Bytes of one layer beyond what it keeps for backward.

    Attributes:
        forward: at the most, during its forward pass.
        backward: at the most, during its backward pass; what recomputation brings back is
            in it. Both are relative to all of the layer's kept tensors being alive.
    """

    forward: Number
    backward: Number


def walk(
    setting: Setting, operations: Operations, kept: Iterable[Tensor], *, gradients: bool = False
) -> Walk:
    """Walk a layer forward and back.

    Args:
        setting: the run.
        operations: the layer's operations, in order of the forward pass.
        kept: the tensors that it keeps for backward.
        gradients: gradients of weights that appear in backward stay, and count from then on.
    """
    names = {tensor.name: tensor for tensor in kept}
    everything = total(tensor.bytes for tensor in names.values())
    return Walk(
        forward=_forward(operations, names) - everything,
        backward=_backward(setting, operations, names, gradients) - everything,
    )


class _Level:
    """A running sum of what is alive, and its maximum."""

    def __init__(self, start: Number) -> None:
        self.alive: dict[str, Number] = {}
        self.now = start
        self.peak = start

    def add(self, name: str, size: Number) -> None:
        """Bring a tensor to life, unless it is alive already."""
        if name not in self.alive:
            self.alive[name] = size
            self.now = self.now + size

    def drop(self, name: str) -> None:
        """Free a tensor, if it is alive."""
        if name in self.alive:
            self.now = self.now - self.alive.pop(name)

    def mark(self, extra: Number = 0) -> None:
        """Note the level, with what lives only during one operation."""
        self.peak = maximum(self.peak, self.now + extra)


def _forward(operations: Operations, kept: dict[str, Tensor]) -> Number:
    """The most that is alive during the forward pass, the layer's input among it."""
    last_use: dict[str, int] = {}
    for index, operation in enumerate(operations):
        for tensor in (*operation.inputs, *operation.frames):
            last_use[tensor.name] = index
    leaving = {tensor.name for tensor in operations[-1].outputs}
    level = _Level(0)
    for tensor in operations[0].inputs:
        level.add(tensor.name, tensor.bytes)
    for index, operation in enumerate(operations):
        for tensor in operation.outputs if not operation.into_buffer else ():
            level.add(tensor.name, tensor.bytes)
        for tensor in operation.saves:
            if tensor.name in kept:
                level.add(tensor.name, tensor.bytes)
        level.mark(_bytes(operation.scratch))
        done = [name for name in level.alive if name not in kept and name not in leaving]
        for name in done:
            if last_use.get(name, -1) <= index:
                level.drop(name)
    return level.peak


def _backward(
    setting: Setting, operations: Operations, kept: dict[str, Tensor], gradients: bool
) -> Number:
    """The most that is alive during the backward pass."""
    first_saver: dict[str, int] = {}
    for index, operation in enumerate(operations):
        for tensor in operation.saves:
            first_saver.setdefault(tensor.name, index)
    level = _Level(0)
    for tensor in kept.values():
        level.add(tensor.name, tensor.bytes)
    storage = _Storage(level)
    for tensor in operations[-1].outputs:
        storage.give(tensor.name, tensor.bytes)
    for index in range(len(operations) - 1, -1, -1):
        operation = operations[index]
        for tensor in operation.saves:
            level.add(tensor.name, tensor.bytes)  # rebuilt, where it was not kept
        extra = storage.step_back(operation) + _bytes(operation.scratch_backward)
        made = _weight_gradient(setting, operation)
        if gradients:
            level.add(f"weight gradients of {operation.name}", made)
        level.mark(extra if gradients else extra + made)
        storage.release(operation)
        for tensor in operation.saves:
            if first_saver[tensor.name] == index:
                level.drop(tensor.name)
    return level.peak


class _Storage:
    """Gradients of activations, which a residual sum passes on without a copy."""

    def __init__(self, level: _Level) -> None:
        self.level = level
        self.owner: dict[str, str] = {}
        self.users: dict[str, int] = {}

    def give(self, tensor: str, size: Number) -> None:
        """A gradient of its own for a tensor."""
        self.owner[tensor] = f"gradient of {tensor}"
        self.users[self.owner[tensor]] = 1
        self.level.add(self.owner[tensor], size)

    def step_back(self, operation: Operation) -> Number:
        """Make the gradients of an operation's inputs; return what lives only meanwhile."""
        extra: Number = 0
        arriving = [t.name for t in operation.outputs if t.name in self.owner]
        for tensor in operation.inputs:
            if tensor.name in self.owner:
                extra = extra + tensor.bytes  # a second contribution, summed into the first
            elif operation.passes_gradient and arriving:
                owner = self.owner[arriving[0]]
                self.owner[tensor.name] = owner
                self.users[owner] += 1
            else:
                self.give(tensor.name, _piece(operation, tensor))
        return extra

    def release(self, operation: Operation) -> None:
        """Free the gradients of an operation's outputs."""
        reads = {tensor.name for tensor in operation.inputs}
        for tensor in operation.outputs:
            owner = self.owner.pop(tensor.name, None) if tensor.name not in reads else None
            if owner is None:
                continue
            self.users[owner] -= 1
            if self.users[owner] == 0:
                self.level.drop(owner)


def _piece(operation: Operation, tensor: Tensor) -> Number:
    """What is alive of a tensor that a loop makes piece by piece."""
    return tensor.bytes if is_one(operation.slices) else ceil_div(tensor.bytes, operation.slices)


def _bytes(tensors: Iterable[Tensor]) -> Number:
    return total(tensor.bytes for tensor in tensors)


def _weight_gradient(setting: Setting, operation: Operation) -> Number:
    """The gradients of an operation's weights, as backward makes them.

    With a persistent buffer they are added to it; with gradient-accumulation fusion the
    product writes into the buffer itself.
    """
    habits = setting.runtime
    if habits.gradient_buffer == "in-backward":
        return total(made_bytes(setting, weight) for weight in operation.weights)
    if habits.placeholder_gradients:
        return 0
    size = dtype(setting.precision.weights)
    return total(size.storage(weight.numel) for weight in operation.weights if weight.trains)
