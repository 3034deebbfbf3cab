"""Activations kept for backward, per chunk of a stage, under recomputation."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.algebra import Number, largest, maximum, total, where
from tonnage.arch import Layer
from tonnage.ledger import Operations, StageLedger, Tensor, saved_bytes, saved_tensors
from tonnage.ledger.flops import block_length
from tonnage.ledger.frozen import reaches_layers
from tonnage.ledger.layer import layer_input, recomputed_modules
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.piece import RECOMPUTE, by_piece
from tonnage.ledger.selective import OUTPUTS
from tonnage.memory.gradients import keeps_own_gradients
from tonnage.memory.liveness import Walk, walk
from tonnage.plan import Plan, Setting
from tonnage.plan.schedule import SPLITS

EVERY_SECOND = "every-second-layer"
"""The name among a plan's recompute modules."""


def group_length(plan: Plan, layers: int) -> int:
    """Layers between two checkpoints under uniform full recomputation.

    Keeping every √L-th of L layers needs √L checkpoints and √L layers at once, the least
    of all spacings (Chen et al., arXiv 1604.06174, section 4.1).
    """
    if plan.recompute_num_layers:
        return min(plan.recompute_num_layers, max(1, layers))
    return max(1, round(math.sqrt(layers)))


def kept_by_chunk(
    setting: Setting, ledger: StageLedger, chunk: tuple[Layer, ...], index: int = 0
) -> Number:
    """Bytes that one micro-batch leaves on one chunk between its forward and backward.

    Args:
        setting: the run.
        ledger: the stage.
        chunk: its layers.
        index: its position in the stage.
    """
    plan = setting.plan
    if not reaches_layers(setting):
        return 0
    kept = {layer: saved_bytes(setting, ops) for layer, ops in ledger.layers.items()}
    checkpoint = layer_input(setting).bytes
    if alternates(plan):
        return len(chunk) // 2 * checkpoint + _sum(kept, chunk[::2])
    if plan.recompute != "full":
        return _sum(kept, chunk)
    if plan.recompute_method == "block":
        cut = block_length(plan, index, len(chunk))
        return cut * checkpoint + _sum(kept, chunk[cut:])
    return math.ceil(len(chunk) / group_length(plan, len(chunk))) * checkpoint


def late_by_chunk(setting: Setting, ledger: StageLedger, chunk: tuple[Layer, ...]) -> Number:
    """Bytes that one micro-batch leaves on a chunk until its weights' gradients are made.

    Products of weights that train still need their inputs, and the gradients of their outputs
    (M_W of arXiv 2401.10241, section 2); with recomputation the inputs are back by then.
    """
    if setting.plan.schedule not in SPLITS:
        return 0
    late = {layer: _for_weights(setting, ops) for layer, ops in ledger.layers.items()}
    return _sum(late, chunk)


@by_piece(*RECOMPUTE)
def _for_weights(setting: Setting, operations: Operations) -> Number:
    """What products with weights that train read, and the gradients of what they write.

    A recipe that caches narrow operands has both gradients' products read one narrow copy of the
    output's gradient (Transformer Engine's ``WeightGradStore``; arXiv 2412.19437, figure 6).
    """
    recipe = setting.precision
    cached = None if recipe.dynamic else recipe.quantized
    kept: list[Tensor] = []
    for operation in operations:
        if operation.kind == "matmul" and any(weight.trains for weight in operation.weights):
            kept += operation.saves
            narrow = cached if any(weight.narrow for weight in operation.weights) else None
            kept += [t.cast(f"gradient of {t.name}", narrow or t.format) for t in operation.outputs]
    return union_bytes(kept)


@dataclass(frozen=True, kw_only=True)
class Transients:
    """What lives beside the kept activations while a stage's layers run, in bytes.

    Attributes:
        forward: beyond what the layer keeps, in its forward pass.
        backward: beyond what the layer (or checkpointed group) keeps, in its backward pass.
        last: the same when nothing but that layer is left, its kept tensors included.
    """

    forward: Number
    backward: Number
    last: Number


def transients(setting: Setting, ledger: StageLedger, *, gradients: bool = False) -> Transients:
    """The largest transients over the kinds of layers that a stage holds.

    Args:
        setting: the run.
        ledger: the stage.
        gradients: whether the weight gradients of the layer at work are among them.
    """
    plain = {layer: _walked(setting, ops, gradients) for layer, ops in ledger.layers.items()}
    forward = largest(each.forward for each in plain.values())
    if not reaches_layers(setting):
        return Transients(forward=forward, backward=0, last=0)
    kept = {layer: saved_bytes(setting, ops) for layer, ops in ledger.layers.items()}
    if OUTPUTS in recomputed_modules(setting):
        return _from_outputs(setting, ledger, kept, gradients)
    if setting.plan.recompute != "full" and not alternates(setting.plan):
        backward = largest(each.backward for each in plain.values())
        last = largest(kept[layer] + plain[layer].backward for layer in plain)
        return Transients(forward=forward, backward=backward, last=last)
    checkpoint = layer_input(setting).bytes
    output = checkpoint if setting.runtime.rebuilt_output else 0
    rebuilt = output + largest(
        _rebuilt(setting, ledger, plain, group) for group in _groups(setting, ledger)
    )
    return Transients(
        forward=largest(_without_saved(setting, ops) for ops in ledger.layers.values()),
        # A stage of an end alone has no checkpoint either.
        backward=maximum(rebuilt - checkpoint, 0),
        last=rebuilt,
    )


def alternates(plan: Plan) -> bool:
    """Whether every second layer keeps only its input, and the others everything."""
    return plan.recompute == "selective" and EVERY_SECOND in plan.recompute_modules


def _from_outputs(
    setting: Setting, ledger: StageLedger, kept: dict[Layer, Number], gradients: bool
) -> Transients:
    """Where chosen outputs are kept, all the rest of a layer is rebuilt before its backward."""
    whole = {layer: _with_rest(setting, ops, gradients) for layer, ops in ledger.layers.items()}
    return Transients(
        forward=largest(_walked(setting, ops, False).forward for ops in ledger.layers.values()),
        backward=largest(whole[layer] - kept[layer] for layer in whole),
        last=largest(whole.values()),
    )


@by_piece()
def _walked(setting: Setting, operations: Operations, gradients: bool) -> Walk:
    """A layer that keeps what the plan lets it keep, forward and back."""
    return walk(setting, operations, saved_by_layer(setting, operations), gradients=gradients)


@by_piece()
def _with_rest(setting: Setting, operations: Operations, gradients: bool) -> Number:
    """A layer's backward pass with all that it saves, its input and what it has kept."""
    stays = saved_by_layer(setting, operations)
    needed = {t.name: t for t in (layer_input(setting), *stays, *_all_saved(operations))}
    walked = walk(setting, operations, needed.values(), gradients=gradients)
    return union_bytes(needed.values()) + walked.backward


@by_piece(*RECOMPUTE)
def _without_saved(setting: Setting, operations: Operations) -> Number:
    """The most that a layer's forward pass holds when it keeps nothing but its input."""
    return walk(setting, operations, (layer_input(setting),)).forward


@by_piece(*RECOMPUTE)
def _with_input(setting: Setting, operations: Operations) -> Number:
    """A layer's input and all that it saves."""
    return union_bytes((layer_input(setting), *_all_saved(operations)))


@by_piece(*RECOMPUTE)
def saved_by(_: Setting, operations: Operations) -> Number:
    """All that a piece saves, whatever is recomputed: what the embedding and the head keep."""
    return union_bytes(_all_saved(operations))


def backward_transients(setting: Setting, ledger: StageLedger) -> Transients:
    """The transients, with the weight gradients that appear in a step's last backward pass."""
    transient = transients(setting, ledger)
    if setting.runtime.gradient_buffer == "persistent":
        return transient
    staying = transients(setting, ledger, gradients=True)
    keeps = keeps_own_gradients(setting)
    return Transients(
        forward=transient.forward,
        backward=where(keeps, staying.backward, transient.backward),
        last=where(keeps, staying.last, transient.last),
    )


def retained(setting: Setting, ledger: StageLedger) -> Number:
    """What finished layers still hold when backward enters the first one.

    Reentrant checkpoints around frozen units of FSDP1: hooks that only reshard refer to each
    layer's detached input and its gradient until backward ends
    (``torch/distributed/fsdp/_runtime_utils.py``). The gradient that enters the first layer
    is one of them, and counts with that layer.
    """
    plan, habits = setting.plan, setting.runtime
    frozen = habits.sharding == "flat-units" and setting.gathers and not setting.trains_base
    if not frozen or plan.recompute != "full" or not habits.rebuilt_output:
        return 0
    layers = len(ledger.stage.layers)
    held = max(0, layers - 1) + max(0, layers - 2)
    return where(setting.shard > 1, held * layer_input(setting).bytes, 0)


@by_piece()
def held_by_frame(_: Setting, head: Operations) -> Number:
    """What the model's frame refers to while it computes the loss, and the head does not keep."""
    saved = {tensor.name for op in head for tensor in op.saves}
    frames = [tensor for op in head for tensor in op.frames if tensor.name not in saved]
    return union_bytes(frames)


Group: TypeAlias = tuple[tuple[Layer, int], ...]


def _groups(setting: Setting, ledger: StageLedger) -> set[Group]:
    """The distinct groups of layers that full recomputation brings back at once."""
    plan = setting.plan
    block = plan.recompute_method == "block"
    groups: set[Group] = set()
    for index, chunk in enumerate(ledger.stage.chunks):
        length = 1 if block else group_length(plan, len(chunk))
        reach = block_length(plan, index, len(chunk))
        for start in range(0, reach, length):
            groups.add(tuple(Counter(chunk[start : start + length]).items()))
    return groups


def _rebuilt(
    setting: Setting, ledger: StageLedger, plain: dict[Layer, Walk], group: Group
) -> Number:
    """All that a checkpointed group saves, and its last layer's backward on top.

    The input of each layer is among it: the group's as the checkpoint, the others because the
    layer before is asked for its output.
    """
    kept = total(count * _with_input(setting, ledger.layers[layer]) for layer, count in group)
    return kept + largest(plain[layer].backward for layer, _ in group)


def saved_by_layer(setting: Setting, operations: Operations) -> tuple[Tensor, ...]:
    """What one layer keeps while its forward and backward pass run."""
    return saved_tensors(operations, recomputed_modules(setting))


def _all_saved(operations: Operations) -> tuple[Tensor, ...]:
    return tuple(tensor for op in operations for tensor in op.saves)


def _sum(kept: dict[Layer, Number], layers: tuple[Layer, ...]) -> Number:
    return total(count * kept[layer] for layer, count in Counter(layers).items())
