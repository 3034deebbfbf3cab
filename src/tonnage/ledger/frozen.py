"""Parts that do not train: no gradients, no states, and less to keep for backward."""

from __future__ import annotations

import dataclasses

from tonnage.ledger.operation import Operation, Operations, Weight
from tonnage.ledger.parts import LAYER_PARTS, place_of
from tonnage.plan import Setting


def frozen_parts(setting: Setting) -> frozenset[str]:
    """The parts that a plan freezes, as `tonnage.ledger.parts.place_of` names them.

    A tied head is the embedding.
    """
    asked: set[str] = set(setting.plan.freeze)
    if "layers" in asked:
        asked = (asked - {"layers"}) | LAYER_PARTS
    if setting.architecture.tied_embeddings and asked & {"embedding", "head"}:
        asked |= {"embedding", "head"}
    return frozenset(asked)


def reaches_layers(setting: Setting) -> bool:
    """Whether backward enters the layers: not where all of them and the embedding are frozen."""
    return not frozen_parts(setting) >= LAYER_PARTS | {"embedding"}


def with_frozen(setting: Setting, operations: Operations, *, inside: bool) -> Operations:
    """The operations with the plan's frozen parts.

    A frozen product has no weight gradient: half of the FLOPs of its backward pass, and
    nothing kept for it but a cast of the weight. Where backward never enters the layers, they
    and the embedding keep nothing and send nothing back.

    Args:
        setting: the run.
        operations: of the embedding, of a layer or of the head.
        inside: whether they lie before the head.
    """
    parts = frozen_parts(setting)
    if not parts:
        return operations
    found = tuple(_frozen(operation, parts) for operation in operations)
    if inside and not reaches_layers(setting):
        return tuple(_forward_only(operation) for operation in found)
    return found


def _marked(weight: Weight, parts: frozenset[str]) -> Weight:
    return dataclasses.replace(weight, trains=False) if place_of(weight) in parts else weight


def _frozen(operation: Operation, parts: frozenset[str]) -> Operation:
    weights = tuple(_marked(weight, parts) for weight in operation.weights)
    trained = any(weight.trains for weight in operation.weights)
    if not trained or any(weight.trains for weight in weights):
        return dataclasses.replace(operation, weights=weights)
    if operation.kind != "matmul":
        return dataclasses.replace(operation, weights=weights, scratch_backward=())
    return dataclasses.replace(
        operation,
        weights=weights,
        flops_backward=operation.flops_backward - operation.flops,
        saves=tuple(tensor for tensor in operation.saves if tensor.name.endswith("weight_cast")),
    )


def _forward_only(operation: Operation) -> Operation:
    return dataclasses.replace(
        operation,
        saves=(),
        flops_backward=0,
        flops_inside=0,
        scratch_backward=(),
        collectives=tuple(c for c in operation.collectives if c.phase == "forward"),
    )
