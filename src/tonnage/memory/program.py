"""A list of operations -> the allocations, frees, kernels and collectives of one pass.

`forward_program` and `backward_program` write out what the host asks for, in its order. A
program names *slots*: the storages of one micro-batch on one layer. It is written once for
each kind of layer and played for every layer and micro-batch (`tonnage.memory.replay`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tonnage.dtype import dtype
from tonnage.ledger import Operation, Operations, Tensor
from tonnage.ledger.embedding import token_table
from tonnage.ledger.joined import JOINED
from tonnage.ledger.operation import Collective, Phase
from tonnage.memory.workspace import matmul_workspace
from tonnage.plan import Setting
from tonnage.timing.clocks import Cost, Costs


class Kind(IntEnum):
    """What a step asks for."""

    TAKE = 0
    DROP = 1
    RUN = 2
    SEND = 3
    JOIN = 4
    WEIGHT = 5
    LAST = 6


class Step(NamedTuple):
    """One request of the host.

    Attributes:
        kind: what it asks for.
        slot: the storage that it takes or drops; a weight's name for its gradient; the name
            of a buffer that is made when first needed and then lasts; the axis of a
            collective.
        size: its bytes.
        cost: of a kernel or collective.
        touched: the slots that a collective reads or writes.
    """

    kind: Kind
    slot: str = ""
    size: int = 0
    cost: Cost = Cost()
    touched: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Program:
    """The steps of one pass over some operations.

    Attributes:
        steps: in the order that the host issues them.
        enters: the slot that it finds filled: its input, or its output's gradient.
        leaves: the slot that it fills for the next: its output, or its input's gradient.
    """

    steps: tuple[Step, ...]
    enters: str
    leaves: str


def fused(setting: Setting, operations: Operations) -> Operations:
    """The operations as the runtime launches them: linear layers that are one product joined."""
    found: list[Operation] = []
    for operation in operations:
        last = found[-1] if found else None
        if last is not None and _same_product(setting, last, operation):
            found[-1] = _join(last, operation)
        else:
            found.append(operation)
    return tuple(found)


def _same_product(setting: Setting, one: Operation, other: Operation) -> bool:
    if one.kind != "matmul" or other.kind != "matmul" or one.inputs != other.inputs:
        return False
    first, second = (name.rpartition(".")[2] for name in (one.outputs[-1].name, other.name))
    return any(
        getattr(setting.runtime, habit) == "fused" and first in parts and second in parts
        for habit, parts in JOINED.items()
    )


def _join(one: Operation, other: Operation) -> Operation:
    return dataclasses.replace(
        one,
        outputs=(*one.outputs, *other.outputs),
        saves=tuple(dict.fromkeys((*one.saves, *other.saves))),
        weights=(*one.weights, *other.weights),
        flops=one.flops + other.flops,
        flops_backward=one.flops_backward + other.flops_backward,
        outputs_joined=True,
    )


class Homes:
    """Which storage each tensor lies in, and how large it is."""

    def __init__(self, operations: Operations) -> None:
        self._home: dict[str, str] = {}
        self._size: dict[str, int] = {}
        for operation in operations:
            if operation.outputs_joined:
                home = f"{operation.name}+"
                self._home.update({tensor.name: home for tensor in operation.outputs})
                self._size[home] = sum(int(tensor.bytes) for tensor in operation.outputs)

    def of(self, tensor: Tensor) -> str:
        """The storage that a tensor lies in."""
        return self._home.get(tensor.name, tensor.name)

    def size(self, tensor: Tensor) -> int:
        """Bytes of that storage."""
        return self._size.get(self.of(tensor)) or int(tensor.bytes)


class Writer:
    """Steps being written, and the slots that are filled so far."""

    def __init__(self, filled: Iterable[str]) -> None:
        self.steps: list[Step] = []
        self.filled = set(filled)

    def take(self, slot: str, size: int) -> None:
        """Fill a slot, unless it is filled already."""
        if slot not in self.filled:
            self.filled.add(slot)
            self.steps.append(Step(kind=Kind.TAKE, slot=slot, size=size))

    def drop(self, slot: str) -> None:
        """Empty a slot, if it is filled."""
        if slot in self.filled:
            self.filled.discard(slot)
            self.steps.append(Step(kind=Kind.DROP, slot=slot))

    def last(self, name: str, size: int) -> None:
        """Make a buffer that stays, unless it is there."""
        if size:
            self.steps.append(Step(kind=Kind.LAST, slot=name, size=size))

    def product(self, operation: Operation, thread: str, setting: Setting) -> None:
        """The workspace of matrix products: one for each thread that launches any."""
        if operation.kind == "matmul":
            size = setting.runtime.matmul_workspace or matmul_workspace(setting.device)
            self.last(f"workspace of the {thread} thread", size)

    def run(self, cost: Cost) -> None:
        """Launch kernels."""
        if cost.host or cost.device:
            self.steps.append(Step(kind=Kind.RUN, cost=cost))

    def join(self, axis: str = "tp") -> None:
        """Let the kernels that follow wait for the collectives of a group."""
        self.steps.append(Step(kind=Kind.JOIN, slot=axis))

    def send(self, collective: Collective, costs: Costs, touched: Iterable[str]) -> None:
        """Start a collective."""
        slots = tuple(slot for slot in touched if slot in self.filled)
        cost = costs.collective(collective)
        if cost.device:
            step = Step(kind=Kind.SEND, slot=collective.axis, cost=cost, touched=slots)
            self.steps.append(step)


def forward_program(
    operations: Operations, kept: Iterable[Tensor], costs: Costs, *, enters: str
) -> Program:
    """The forward pass: each tensor is freed after its last use unless it is kept.

    Args:
        operations: in order, as launched (`fused`).
        kept: what stays for the backward pass.
        costs: of kernels and collectives.
        enters: the slot of the input.
    """
    homes = Homes(operations)
    keep = {homes.of(tensor): homes.size(tensor) for tensor in kept}
    last_use: dict[str, int] = {}
    for index, operation in enumerate(operations):
        for tensor in (*operation.inputs, *operation.frames):
            last_use[homes.of(tensor)] = index
    leaves = homes.of(operations[-1].outputs[0]) if operations[-1].outputs else ""
    writer = Writer([enters] if enters else [])
    for index, operation in enumerate(operations):
        _forward(writer, operation, homes, keep, costs)
        for slot in sorted(writer.filled):
            if slot not in keep and slot != leaves and last_use.get(slot, -1) <= index:
                writer.drop(slot)
    return Program(steps=tuple(writer.steps), enters=enters, leaves=leaves)


def _forward(
    writer: Writer, operation: Operation, homes: Homes, keep: dict[str, int], costs: Costs
) -> None:
    for tensor in operation.scratch:
        if tensor.bytes:
            writer.take(tensor.name, int(tensor.bytes))
    for tensor in operation.outputs if not operation.into_buffer else ():
        writer.take(homes.of(tensor), homes.size(tensor))
    for tensor in operation.saves:
        if homes.of(tensor) in keep:
            writer.take(homes.of(tensor), homes.size(tensor))
    if operation.into_buffer:
        writer.last("gathered inputs", sum(int(t.bytes) for t in operation.outputs))
    writer.product(operation, "forward", costs.setting)
    writer.run(costs.forward(operation))
    touched = [homes.of(tensor) for tensor in (*operation.inputs, *operation.outputs)]
    for collective in of_phase(operation, "forward"):
        writer.send(collective, costs, touched)
        writer.join(collective.axis)
    for tensor in operation.scratch:
        writer.drop(tensor.name)


def of_phase(operation: Operation, phase: Phase) -> tuple[Collective, ...]:
    """The collectives of one pass that move anything."""
    return tuple(c for c in operation.collectives if c.phase == phase and c.bytes)


def weight_gradients(setting: Setting, operation: Operation) -> tuple[Step, ...]:
    """The gradients that an operation's backward pass hands to its weights.

    With gradient-accumulation fusion the product writes into the persistent buffer.
    """
    if setting.runtime.placeholder_gradients:
        return ()
    recipe = setting.precision
    weights = operation.weights
    if operation.name == "head" and not any(weight.embedding for weight in weights):
        weights = (token_table(setting), *weights)
    held = recipe.gradients if setting.runtime.gradient_buffer == "in-backward" else recipe.weights
    return tuple(
        Step(kind=Kind.WEIGHT, slot=weight.name, size=int(dtype(held).storage(weight.numel)))
        for weight in weights
        if weight.trains
    )
