"""The products and the attention of a model, as FLOPs and bytes of the ledger."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.algebra import Number, exact_div, minimum, total
from tonnage.arch import Architecture, Layer, MoE
from tonnage.dtype import DType
from tonnage.ledger import (
    Operation,
    Operations,
    Tensor,
    decode_operations,
    decodes,
    layer_operations,
    stage_ledgers,
    whole,
    whole_stage,
)
from tonnage.plan import Setting

Phase: TypeAlias = Literal["training", "prefill", "decode"]
PHASES: tuple[Phase, ...] = ("training", "prefill", "decode")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much a model is given at once.

    Attributes:
        seq: tokens of a sequence; in decode, those in the cache.
        mbs: sequences.
    """

    seq: int
    mbs: int


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operation of a model in one phase.

    Attributes:
        model: the model's name.
        phase: training is forward and backward; prefill is forward over ``seq`` tokens,
            decode over one token a sequence.
        name: the operation's name in the ledger.
        count: how many layers have it.
        flops: FLOPs of one of them.
        bytes: bytes of one of them.
    """

    model: str
    phase: Phase
    name: str
    count: int
    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOP per byte moved."""
        return self.flops / self.bytes


def points(architecture: Architecture, size: Size, number_format: DType) -> tuple[Point, ...]:
    """Every matrix product and attention of a model, in each phase, in the ledger's order.

    Layers that do the same are one point. Elementwise operations have no FLOPs in the ledger.

    Args:
        architecture: the model, on one device.
        size: sequences and their length.
        number_format: of weights and activations.
    """
    found: Counter[Point] = Counter()
    for phase in PHASES:
        for layer, operation in _operations(architecture, size, phase):
            if operation.kind not in ("matmul", "attention") or not operation.flops:
                continue
            layers = architecture.kinds()[layer] if layer else 1
            setting = _setting(architecture, size, phase)
            found[_point(setting, layer, operation, phase, number_format)] += layers
    return tuple(dataclasses.replace(point, count=count) for point, count in found.items())


def undecoded(architecture: Architecture) -> int:
    """Layers that decode leaves out, because their mixer's cache is not modelled."""
    return sum(not decodes(layer) for layer in architecture.layers)


def _setting(architecture: Architecture, size: Size, phase: Phase) -> Setting:
    return whole(architecture, mbs=size.mbs, seq=1 if phase == "decode" else size.seq)


def _operations(
    architecture: Architecture, size: Size, phase: Phase
) -> Iterable[tuple[Layer | None, Operation]]:
    """Each kind of layer with its operations, and then the head's, which are in no layer."""
    setting = whole(architecture, mbs=size.mbs, seq=size.seq)
    for layer in architecture.kinds():
        yield from ((layer, op) for op in _layer(setting, layer, phase))
    (ends,) = stage_ledgers(_setting(architecture, size, phase), (whole_stage(architecture),))
    yield from ((None, op) for op in ends.head)


def _layer(setting: Setting, layer: Layer, phase: Phase) -> Operations:
    if phase != "decode":
        return layer_operations(setting, layer)
    return decode_operations(setting, layer) if decodes(layer) else ()


def _point(
    setting: Setting, layer: Layer | None, operation: Operation, phase: Phase, entry: DType
) -> Point:
    """FLOPs and bytes: each tensor read or written once, and each weight read once.

    The backward pass reads what was saved and the gradient of each output, reads the
    weights again, and writes the gradient of each input and weight.
    """
    weights = _weights(setting, layer, operation)
    passing = (*operation.inputs, *operation.outputs)
    flops = operation.flops
    moved = _bytes(setting, passing, entry) + entry.storage(weights)
    if phase == "training":
        flops = flops + operation.flops_backward + operation.flops_inside
        moved = moved + _bytes(setting, operation.saves, entry)
        moved = moved + _bytes(setting, passing, entry) + 2 * entry.storage(weights)
    return Point(
        model=setting.architecture.name,
        phase=phase,
        name=operation.name,
        count=1,
        flops=float(flops),
        bytes=float(moved),
    )


def _bytes(setting: Setting, tensors: Iterable[Tensor], entry: DType) -> Number:
    """Bytes of tensors, each once: activations in the format asked for, others in their own."""
    sizes = {
        tensor.name: entry.storage(tensor.elements)
        if tensor.format == setting.format
        else tensor.bytes
        for tensor in tensors
    }
    return total(sizes.values())


def _weights(setting: Setting, layer: Layer | None, operation: Operation) -> Number:
    """Elements of the weights that are read: of experts, no more than tokens can visit."""
    if operation.kind != "matmul":
        return 0
    if operation.name == "head" and setting.architecture.tied_embeddings:
        # The table is the embedding's, and so none of the head's weights: vocab times width.
        both = operation.outputs[0].elements * operation.inputs[0].elements
        return exact_div(both, setting.tokens**2)
    visited = setting.tokens
    if layer is not None and isinstance(layer.mlp, MoE):
        visited = visited * layer.mlp.top_k
    return total(
        exact_div(weight.numel, weight.copies) * minimum(weight.copies, visited)
        for weight in operation.weights
    )
