"""The vocabulary of the ledger: what an operation reads, writes, owns, keeps and sends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.algebra import Number, total
from tonnage.dtype import dtype

OperationKind: TypeAlias = Literal["matmul", "attention", "elementwise", "communication"]
CollectiveKind: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"
]
Phase: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor of one micro-batch on one rank; the name is its storage's.

    Two operations that keep the same storage name the same tensor, which then counts once.

    Attributes:
        name: what it is called, once in a layer.
        elements: how many.
        format: their number format.
        copy_of: the tensor that it repeats in another format; empty where it repeats none.
    """

    name: str
    elements: Number
    format: str
    copy_of: str = ""

    @property
    def bytes(self) -> Number:
        """Storage in bytes, scales of block formats included."""
        return dtype(self.format).storage(self.elements)

    def cast(self, name: str, number_format: str) -> Tensor:
        """The same elements under another name and in another format."""
        return Tensor(name=name, elements=self.elements, format=number_format)

    def copy(self, name: str, number_format: str) -> Tensor:
        """The same values once more, in another format: gone whenever they are."""
        return Tensor(name=name, elements=self.elements, format=number_format, copy_of=self.name)


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A parameter as one rank holds it, before ZeRO shards it.

    Attributes:
        name: its name within the layer.
        shape: its local shape.
        copies: how many the rank holds (local experts).
        group: which ranks hold the same: the ``dense`` or the ``expert`` replicas.
        trains: whether it has a gradient and optimizer states.
        base: a linear weight inside a layer, which QLoRA quantises.
        narrow: a linear weight that FP8 and FP4 recipes keep quantised copies of.
        embedding: a lookup table or the head, which Muon leaves to AdamW.
        format: that of the weight, its gradient and its states, where it is not the recipe's.
        adapter: it is part of an adapter.
    """

    name: str
    shape: tuple[Number, ...]
    copies: Number = 1
    group: Literal["dense", "expert"] = "dense"
    trains: bool = True
    base: bool = False
    narrow: bool = False
    embedding: bool = False
    format: str | None = None
    adapter: bool = False

    @property
    def numel(self) -> Number:
        """Elements on this rank."""
        count = self.copies
        for extent in self.shape:
            count = count * extent
        return count


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective that an operation starts.

    Attributes:
        kind: the collective.
        axis: the mesh axis whose group takes part.
        bytes: the full tensor: the input of an all-reduce, reduce-scatter or all-to-all, the
            output of an all-gather (the convention of nccl-tests).
        phase: whether it belongs to the forward or the backward pass.
    """

    kind: CollectiveKind
    axis: str
    bytes: Number
    phase: Phase


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a layer on one rank and one micro-batch.

    Attributes:
        name: its name within the layer.
        kind: what bounds it.
        inputs: tensors read in forward.
        outputs: tensors written in forward.
        saves: tensors kept for backward.
        reentry: tensors that it keeps in place of its inputs where it is recomputed; empty: these.
        weights: parameters that it owns.
        flops: FLOPs of the forward pass (2 per multiply-add).
        flops_backward: FLOPs of the backward pass that the mathematics needs.
        flops_inside: FLOPs that the backward kernel spends on recomputing its own
            intermediates (flash attention's scores); not counted as model FLOPs.
        collectives: what it sends.
        modules: names under which selective recomputation may pick it.
        frames: tensors that the calling code still refers to until this operation is done.
        passes_gradient: the gradient of its output is that of its inputs, without a copy.
        into_buffer: its outputs lie in a buffer that stays.
        outputs_joined: its outputs are views of one storage.
        gradients_joined: the gradients of its inputs are written as one tensor.
        gradient_into: the saved tensor that the gradient of its input overwrites.
        slices: pieces that a loop does one after another (experts): of the gradients of its
            inputs, one piece is alive at a time.
        scratch: tensors that live while the forward kernel runs.
        scratch_backward: tensors that live while the backward kernel runs.
        scattered: its rows are read or written in the order of an index.
        moves: it only copies; where kernels are eager, the factor on their traffic stands for
            copies already (`tonnage.timing.constants.EAGER_TRAFFIC`).
        rows: of an attention core, queries times heads; None elsewhere.
    """

    name: str
    kind: OperationKind
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    saves: tuple[Tensor, ...] = ()
    reentry: tuple[Tensor, ...] = ()
    weights: tuple[Weight, ...] = ()
    flops: Number = 0
    flops_backward: Number = 0
    flops_inside: Number = 0
    collectives: tuple[Collective, ...] = ()
    modules: tuple[str, ...] = ()
    frames: tuple[Tensor, ...] = ()
    passes_gradient: bool = False
    into_buffer: bool = False
    outputs_joined: bool = False
    gradients_joined: bool = False
    gradient_into: str | None = None
    slices: Number = 1
    scratch: tuple[Tensor, ...] = ()
    scratch_backward: tuple[Tensor, ...] = ()
    scattered: bool = False
    moves: bool = False
    rows: Number | None = None


Operations: TypeAlias = tuple[Operation, ...]


def renamed(operation: Operation, start: str, instead: str) -> Operation:
    """The operation with another beginning of the names of all that it reads, writes and owns."""

    def tensors(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(dataclasses.replace(t, name=t.name.replace(start, instead)) for t in given)

    return dataclasses.replace(
        operation,
        name=operation.name.replace(start, instead),
        inputs=tensors(operation.inputs),
        outputs=tensors(operation.outputs),
        saves=tensors(operation.saves),
        reentry=tensors(operation.reentry),
        weights=tuple(
            dataclasses.replace(w, name=w.name.replace(start, instead)) for w in operation.weights
        ),
    )


def weights_of(operations: Iterable[Operation]) -> tuple[Weight, ...]:
    """All parameters of some operations."""
    return tuple(weight for operation in operations for weight in operation.weights)


def forward_flops(operations: Iterable[Operation]) -> Number:
    """FLOPs of the forward pass."""
    return total(operation.flops for operation in operations)


def union_bytes(tensors: Iterable[Tensor]) -> Number:
    """Bytes of the tensors, each storage counted once."""
    return total({tensor.name: tensor.bytes for tensor in tensors}.values())
