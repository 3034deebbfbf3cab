"""The backward pass of a list of operations, as the host issues it."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.ledger import Operation, Operations, Tensor
from tonnage.memory.program import (
    Homes,
    Program,
    Writer,
    of_phase,
    weight_gradients,
)
from tonnage.plan import Setting
from tonnage.timing.clocks import Costs


def gradient_of(name: str) -> str:
    """The slot of a tensor's gradient."""
    return f"d {name}"


def backward_program(
    setting: Setting, operations: Operations, kept: Iterable[Tensor], costs: Costs, *, enters: str
) -> Program:
    """The backward pass, from the gradient of the last output to that of the first input.

    Args:
        setting: the run.
        operations: in the order of the forward pass, as launched.
        kept: what the forward pass has left.
        costs: of kernels and collectives.
        enters: the name of the first input; empty where nothing before it learns.
    """
    back = _Backward(setting, operations, kept, costs)
    arriving = [back.homes.of(tensor) for tensor in operations[-1].outputs]
    for index in range(len(operations) - 1, -1, -1):
        back.step(index)
    return Program(
        steps=tuple(back.writer.steps),
        enters=gradient_of(arriving[0]) if arriving else "",
        leaves=back.slots.get(enters, ""),
    )


class _Backward:
    """The state of the walk back: which gradients there are, and where they lie."""

    def __init__(
        self, setting: Setting, operations: Operations, kept: Iterable[Tensor], costs: Costs
    ) -> None:
        self.setting = setting
        self.operations = operations
        self.costs = costs
        self.homes = Homes(operations)
        self.slots: dict[str, str] = {}
        self.users: dict[str, int] = {}
        self.first_saver: dict[str, int] = {}
        for index, operation in enumerate(operations):
            for tensor in operation.saves:
                self.first_saver.setdefault(self.homes.of(tensor), index)
        self.writer = Writer(self.homes.of(tensor) for tensor in kept)
        self.done: set[int] = set()
        for tensor in operations[-1].outputs:
            slot = gradient_of(self.homes.of(tensor))
            self.writer.filled.add(slot)
            self._point(tensor.name, slot)

    def step(self, index: int) -> None:
        """The backward pass of one operation."""
        operation = self.operations[index]
        reached = not operation.outputs or any(t.name in self.slots for t in operation.outputs)
        if index not in self.done and reached:
            self._rebuild(operation)
            if operation.kind == "communication":
                self._communicate(index)
                self.writer.join()
            else:
                self._compute(index, operation)
        self._release_outputs(operation)
        for tensor in operation.saves:
            home = self.homes.of(tensor)
            if self.first_saver[home] == index and home not in self.users:
                self.writer.drop(home)

    def _rebuild(self, operation: Operation) -> None:
        """Bring back what selective recomputation did not keep."""
        for tensor in operation.saves:
            self.writer.take(self.homes.of(tensor), self.homes.size(tensor))

    def _compute(self, index: int, operation: Operation) -> None:
        """The input's gradient, then the weight's; a reduction of the former runs meanwhile."""
        writer, costs = self.writer, self.costs
        gather = self._gather_before(index)
        if gather is not None:
            shard = [self.homes.of(tensor) for tensor in gather.inputs]
            for collective in of_phase(gather, "backward"):
                if collective.kind == "all_gather":
                    writer.send(collective, costs, shard)
        self._joined(operation)
        self._input_gradients(operation)
        for tensor in operation.scratch_backward:
            writer.take(tensor.name, int(tensor.bytes))
        writer.product(operation, "backward", self.setting)
        writer.run(costs.backward(operation))
        for tensor in operation.scratch_backward:
            writer.drop(tensor.name)
        if gather is not None:
            self._communicate(index - 1)
            self.done.add(index - 1)
        weights = weight_gradients(self.setting, operation)
        writer.steps.extend(weights)
        if operation.kind == "matmul" and operation.weights:
            writer.run(costs.weight(operation))
        if gather is not None:
            writer.join()
            self._release_outputs(gather)

    def _gather_before(self, index: int) -> Operation | None:
        """The gather that feeds a product, if it is the operation before it."""
        before = self.operations[index - 1] if index else None
        operation = self.operations[index]
        if before is None or operation.kind != "matmul" or before.kind != "communication":
            return None
        reads = {tensor.name for tensor in operation.inputs}
        return before if reads.intersection(t.name for t in before.outputs) else None

    def _joined(self, operation: Operation) -> None:
        """Views of one storage whose gradients lie apart: they are put together first."""
        if not operation.outputs_joined:
            return
        apart = {self.slots[t.name] for t in operation.outputs if t.name in self.slots}
        if len(apart) < 2:
            return
        slot = gradient_of(self.homes.of(operation.outputs[0]))
        self.writer.take(slot, self.homes.size(operation.outputs[0]))
        self.writer.run(self.costs.copy(operation))
        self._release_outputs(operation)
        for tensor in operation.outputs:
            self._point(tensor.name, slot)

    def _input_gradients(self, operation: Operation) -> None:
        arriving = [self.slots[t.name] for t in operation.outputs if t.name in self.slots]
        for position, tensor in enumerate(operation.inputs):
            if operation.passes_gradient and arriving and tensor.name not in self.slots:
                self._point(tensor.name, arriving[min(position, len(arriving) - 1)])
            elif operation.gradient_into is not None:
                self._point(tensor.name, operation.gradient_into)
            elif operation.gradients_joined:
                slot = gradient_of(f"{operation.name}.inputs")
                self.writer.take(slot, sum(int(t.bytes) for t in operation.inputs))
                self._point(tensor.name, slot)
            else:
                self._own_gradient(operation, tensor, arriving)

    def _own_gradient(self, operation: Operation, tensor: Tensor, arriving: list[str]) -> None:
        """A new tensor; where there is a gradient already, the sum of both is a third."""
        slot = gradient_of(tensor.name)
        size = int(tensor.bytes)
        if tensor.name not in self.slots:
            self.writer.take(slot, size)
            self._point(tensor.name, slot)
            return
        second = self.slots[tensor.name]
        if operation.passes_gradient and arriving:
            first = arriving[0]
        else:
            first = f"{slot} by {operation.name}"
            self.writer.take(first, size)
        summed = f"{slot} with {operation.name}"
        self.writer.take(summed, size)
        self.writer.run(self.costs.sum(tensor))
        if first not in arriving:
            self.writer.drop(first)
        self._unpoint(tensor.name, second)
        self._point(tensor.name, summed)

    def _communicate(self, index: int) -> None:
        """A gather's gradient is reduced to the shard; a reduction's is gathered."""
        operation = self.operations[index]
        given = [self.slots[t.name] for t in operation.outputs if t.name in self.slots]
        scatters = any(c.kind == "reduce_scatter" for c in operation.collectives)
        leaving = scatters and any(c.phase == "forward" for c in operation.collectives)
        # Gathered gradients of a row-parallel product have a buffer of their own.
        product = index > 0 and self.operations[index - 1].kind == "matmul"
        buffered = leaving and product and self.setting.runtime.gather_buffers > 1
        made: list[str] = []
        for tensor in operation.inputs:
            if buffered:
                self.writer.last("gathered gradients", int(tensor.bytes))
                self.slots[tensor.name] = ""
                continue
            self._own_gradient(operation, tensor, given)
            made.append(self.slots[tensor.name])
        for collective in of_phase(operation, "backward"):
            if leaving or collective.kind != "all_gather":
                self.writer.send(collective, self.costs, (*given, *made))

    def _point(self, tensor: str, slot: str) -> None:
        self.slots[tensor] = slot
        if slot:
            self.users[slot] = self.users.get(slot, 0) + 1

    def _unpoint(self, tensor: str, slot: str) -> None:
        del self.slots[tensor]
        if not slot:
            return
        self.users[slot] -= 1
        if self.users[slot] == 0:
            del self.users[slot]
            self.writer.drop(slot)

    def _release_outputs(self, operation: Operation) -> None:
        """Free the gradients of an operation's outputs."""
        reads = {tensor.name for tensor in operation.inputs}
        for tensor in operation.outputs:
            slot = self.slots.get(tensor.name)
            if slot is not None and tensor.name not in reads:
                self._unpoint(tensor.name, slot)
