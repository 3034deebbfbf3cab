"""Gradients that appear in backward: how many there are when a layer's turn comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.algebra import Number, largest, total, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight, weights_of
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
        largest_table = largest(made_bytes(setting, w) for w in weights_of(ledger.embedding))
        return Appearing(early=0, top=0, later=0, bottom=0, end=largest_table)
    weights = ledger.weights()
    head, embedding = weights_of(ledger.head), weights_of(ledger.embedding)
    first = weights_of(ledger.layers[ledger.stage.chunks[0][0]])
    late = _made(setting, head)
    if ledger.head and setting.architecture.tied_embeddings and not _owns_table(head):
        late = late + _made(setting, embedding)
    everything = gradients(setting, weights)
    ends = gradients(setting, _once((*head, *embedding)))
    below = everything - gradients(setting, _once(first)) - ends
    whole = late + _made(setting, embedding)
    joined = 2 if setting.gathers and setting.runtime.sharding == "flat-units" else 1
    again = setting.grad_acc > 1
    kept = _between(setting, weights, everything)
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


def _between(setting: Setting, weights: list[tuple[Weight, int]], reduced: Number) -> Number:
    """What one micro-batch leaves for the next: whole gradients in the reduction's format."""
    if not (setting.gathers and _accumulates_whole(setting)):
        return reduced
    if keeps_stage_whole(setting):
        wire = dtype(setting.precision.reduction)
        return total(count * wire.storage(w.numel) for w, count in weights if w.trains)
    return total(count * _made(setting, (weight,)) for weight, count in weights)


def _accumulates_whole(setting: Setting) -> bool:
    return setting.runtime.accumulates_whole or keeps_stage_whole(setting)


def _made(setting: Setting, weights: Iterable[Weight]) -> Number:
    """Gradients as backward makes them."""
    return total(made_bytes(setting, weight) for weight in weights)


def made_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight as backward makes it, before an engine reduces it."""
    if not weight.trains:
        return 0
    made = setting.gradient_format
    if weight.format is not None and not (setting.gathers and setting.runtime.autocast):
        made = weight.format
    return copies(setting, weight) * dtype(made).storage(weight.numel)


def _owns_table(head: Iterable[Weight]) -> bool:
    return any(weight.embedding for weight in head)


def _once(weights: Iterable[Weight]) -> list[tuple[Weight, int]]:
    return [(weight, 1) for weight in weights]
