"""Selective checkpoints that keep the outputs of chosen operations (torchtitan's per-op policy)."""

from __future__ import annotations

from tonnage.ledger.operation import Operation, Operations, Tensor

OUTPUTS = "outputs"
"""The name among a plan's recompute modules."""

SENT = frozenset({"all_to_all", "reduce_scatter"})
"""Collectives whose results are not sent for twice."""


def keeps_output(operations: Operations) -> list[bool]:
    """Which operations' outputs stay: attention, collectives, every second product from the first.

    ``torch.utils.checkpoint.create_selective_checkpoint_contexts`` with torchtitan's list of
    operations (``activation_checkpoint.py``); products are counted layer by layer.
    """
    products = 0
    kept = []
    for operation in operations:
        # Unfused attention multiplies batches (``aten.bmm``), which are not on the list.
        listed = operation.kind == "matmul" and bool(operation.weights)
        products += listed
        odd = listed and products % 2 == 1
        sent = any(c.kind in SENT and c.phase == "forward" for c in operation.collectives)
        kept.append(odd or sent or operation.kind == "attention")
    return kept


def kept_outputs(operations: Operations) -> tuple[Tensor, ...]:
    """The tensors that such a layer keeps: its input, and the outputs that stay."""
    kept = list(operations[0].inputs)
    for operation, keeps in zip(operations, keeps_output(operations), strict=True):
        if keeps:
            kept.extend(operation.outputs)
            kept.extend(_statistics(operation))
    return tuple({tensor.name: tensor for tensor in kept}.values())


def _statistics(operation: Operation) -> list[Tensor]:
    """What attention hands out beside its output: the log-sum-exp."""
    if operation.kind != "attention":
        return []
    return [tensor for tensor in operation.saves if tensor.name.endswith("logsumexp")]
