"""Activations kept for backward, per chunk of a stage, under recomputation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tonnage.algebra import Number, largest, total
from tonnage.arch import Layer
from tonnage.ledger import Operations, StageLedger, saved_bytes
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import union_bytes
from tonnage.plan import Plan, Setting


def group_length(plan: Plan, layers: int) -> int:
    """Layers between two checkpoints under uniform full recomputation.

    Keeping every √L-th of L layers needs √L checkpoints and √L layers at once, the least
    of all spacings (Chen et al., arXiv 1604.06174, section 4.1).
    """
    if plan.recompute_num_layers:
        return min(plan.recompute_num_layers, max(1, layers))
    return max(1, round(math.sqrt(layers)))


def kept_by_chunk(setting: Setting, ledger: StageLedger, chunk: tuple[Layer, ...]) -> Number:
    """Bytes that one micro-batch leaves on one chunk between its forward and backward."""
    plan = setting.plan
    kept = {layer: saved_bytes(setting, ops) for layer, ops in ledger.layers.items()}
    checkpoint = layer_input(setting).bytes
    if plan.recompute != "full":
        return _sum(kept, chunk)
    if plan.recompute_method == "block":
        cut = plan.recompute_num_layers
        return min(cut, len(chunk)) * checkpoint + _sum(kept, chunk[cut:])
    return math.ceil(len(chunk) / group_length(plan, len(chunk))) * checkpoint


def rebuilt_by_group(setting: Setting, ledger: StageLedger) -> Number:
    """Bytes that recomputation brings back at once: all that a checkpointed group saves."""
    plan = setting.plan
    if plan.recompute == "none":
        return 0
    if plan.recompute == "selective":
        whole = {layer: _all_saved(ops) for layer, ops in ledger.layers.items()}
        return largest(whole[layer] - saved_bytes(setting, ledger.layers[layer]) for layer in whole)
    kept = {layer: _all_saved(ops) for layer, ops in ledger.layers.items()}
    groups: set[tuple[tuple[Layer, int], ...]] = set()
    for chunk in ledger.stage.chunks:
        block = plan.recompute_method == "block"
        length = 1 if block else group_length(plan, len(chunk))
        reach = min(plan.recompute_num_layers, len(chunk)) if block else len(chunk)
        for start in range(0, reach, length):
            groups.add(tuple(Counter(chunk[start : start + length]).items()))
    return largest(total(count * kept[layer] for layer, count in group) for group in groups)


def backward_transient(setting: Setting, operations: Iterable[Operations]) -> Number:
    """Gradients of activations that are alive at once inside one layer's backward.

    The widest operation holds the gradients of its outputs while it makes those of its
    inputs, and the gradient of the residual stream waits beside it.
    """
    stream = layer_input(setting).bytes
    widest = largest(
        union_bytes(op.inputs) + union_bytes(op.outputs) for layer in operations for op in layer
    )
    return stream + widest


def _all_saved(operations: Operations) -> Number:
    return union_bytes(tensor for op in operations for tensor in op.saves)


def _sum(kept: dict[Layer, Number], layers: tuple[Layer, ...]) -> Number:
    return total(count * kept[layer] for layer, count in Counter(layers).items())
