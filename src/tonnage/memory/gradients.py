"""Gradients that appear in backward: how many there are when a layer's turn comes."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, total, where
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger, Weight, weights_of
from tonnage.ledger.piece import Pieces, largest_weight, sum_of
from tonnage.memory.gathered import keeps_stage_whole
from tonnage.memory.states import copies, gradients
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Appearing:
    """Bytes of gradients at some instants of a step, without those of the layer at work.

    Attributes:
        early: before the first backward pass that the peak could lie in.
        top: when backward enters the last layer.
        later: the same, one backward pass later.
        bottom: when backward enters the first layer.
        end: when backward has left the embedding.
    """

    early: Number
    top: Number
    later: Number
    bottom: Number
    end: Number


def appearing(setting: Setting, ledger: StageLedger, filled: Number) -> Appearing:
    """Gradients in the backward pass of a step's last micro-batch.

    Of several micro-batches the earlier ones have left gradients for everything: reduced ones,
    or whole ones where the engine puts reduction off. Those of the root unit stay whole until
    backward ends, and are joined into one flat gradient to be reduced.

    Args:
        setting: the run.
        ledger: the stage.
        filled: whether a micro-batch has left its gradients by the time that a stage holds
            most activations.
    """
    if setting.plan.optimizer_in_backward:
        largest_table = largest_weight(setting, ledger.embedding, made_bytes)
        return Appearing(early=0, top=0, later=0, bottom=0, end=largest_table)
    pieces = ledger.pieces()
    head, embedding = ledger.head, ledger.embedding
    # A stage of an end alone has no layer.
    first = [(ledger.layers[layer], 1) for layer in ledger.stage.layers[:1]]
    late = _made(setting, head)
    if ledger.head and setting.architecture.tied_embeddings and not _owns_table(head):
        late = late + _made(setting, embedding)
    everything = gradients(setting, pieces)
    ends = gradients(setting, [(head, 1), (embedding, 1)])
    below = everything - gradients(setting, first) - ends
    whole = late + _made(setting, embedding)
    joined = 2 if setting.gathers and setting.runtime.sharding == "flat-units" else 1
    again = setting.grad_acc > 1
    kept = left_by_microbatch(setting, pieces)
    flight = late if setting.gathers else 0
    return Appearing(
        early=where(filled, kept, 0),
        top=where(filled, kept + flight, late),
        later=where(again, kept + flight, late),
        bottom=where(again, kept + flight, below + late),
        end=where(again, kept, everything - ends) + joined * whole,
    )


def keeps_own_gradients(setting: Setting) -> Number:
    """Whether the gradients of the layer at work are new tensors that stay.

    Else they are summed, one by one, into those of earlier micro-batches.
    """
    if setting.plan.optimizer_in_backward:
        return False
    if setting.gathers and not _accumulates_whole(setting):
        return True
    return setting.grad_acc <= 1


def left_by_microbatch(setting: Setting, pieces: Pieces) -> Number:
    """Bytes that one micro-batch leaves for the next: reduced gradients, or whole ones."""
    if not (setting.gathers and _accumulates_whole(setting)):
        return gradients(setting, pieces)
    size = _wire_bytes if keeps_stage_whole(setting) else made_bytes
    return total(count * sum_of(setting, piece, size) for piece, count in pieces)


def _wire_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight in the reduction's format."""
    return dtype(setting.precision.reduction).storage(weight.numel) if weight.trains else 0


def _accumulates_whole(setting: Setting) -> bool:
    return setting.runtime.accumulates_whole or keeps_stage_whole(setting)


def _made(setting: Setting, piece: Operations) -> Number:
    """Gradients as backward makes them."""
    return sum_of(setting, piece, made_bytes)


def made_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight as backward makes it, before an engine reduces it."""
    if not weight.trains:
        return 0
    made = setting.gradient_format
    if weight.format is not None and not (setting.gathers and setting.runtime.autocast):
        made = weight.format
    return copies(setting, weight) * dtype(made).storage(weight.numel)


def _owns_table(head: Operations) -> bool:
    return any(weight.embedding for weight in weights_of(head))
