"""Which tensor of a run has the size that an allocator could not find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.algebra import total
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.loss import known, loss
from tonnage.ledger.operation import Operations, Tensor, Weight, weights_of
from tonnage.memory.allocator import MIDDLE_SEGMENT, Policy
from tonnage.memory.buffers import gradient_buckets, pipeline_receives
from tonnage.memory.gathered import whole_bytes
from tonnage.memory.states import states
from tonnage.plan import Setting

MOST: Final = 8
"""Suspects that are named at most, the closest first."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A tensor that the run makes, of about the size that was asked for.

    Attributes:
        name: what it is.
        moment: when it is allocated.
        bytes: its own bytes.
        segment: what the allocator asks the device for on its behalf.
        stages: pipeline stages that make one.
    """

    name: str
    moment: str
    bytes: int
    segment: int
    stages: tuple[int, ...]


def suspects(
    setting: Setting, ledgers: Iterable[StageLedger], tried: int, unit: int, moment: str | None
) -> tuple[Suspect, ...]:
    """Tensors whose segment is the one that was asked for, those of the right moment first.

    Args:
        setting: the run.
        ledgers: every stage.
        tried: bytes of the segment, as printed.
        unit: the value of the last printed digit.
        moment: what the code was doing, or None.
    """
    if tried <= MIDDLE_SEGMENT:
        return ()
    found: dict[tuple[str, str], Suspect] = {}
    for ledger in ledgers:
        stage = ledger.stage.index
        for name, when, size in _tensors(setting, ledger):
            segment = Policy.segment_bytes(Policy.round(size))
            if abs(segment - tried) > unit:
                continue
            seen = found.get((name, when))
            found[name, when] = Suspect(
                name=name,
                moment=when,
                bytes=size,
                segment=segment,
                stages=(*seen.stages, stage) if seen and stage not in seen.stages else (stage,),
            )
    return tuple(sorted(found.values(), key=lambda each: each.moment != moment)[:MOST])


def _tensors(setting: Setting, ledger: StageLedger) -> Iterator[tuple[str, str, int]]:
    """Every storage that a step of a stage asks for: what, when, and its bytes."""
    for operations in ledger.layers.values():
        yield from _activations(operations)
    yield from _activations(ledger.embedding)
    yield from _activations(ledger.head)
    if ledger.head and known(setting):
        for tensor in _made(loss(setting)):
            yield tensor.name, "loss", int(tensor.bytes)
    for weight, _ in ledger.weights():
        yield from _weight(setting, weight)
    yield from _buffers(setting, ledger)


def _made(operations: Operations) -> Iterator[Tensor]:
    for operation in operations:
        yield from (*operation.outputs, *operation.saves)
        yield from (*operation.scratch, *operation.scratch_backward)


def _activations(operations: Operations) -> Iterator[tuple[str, str, int]]:
    for tensor in _made(operations):
        size = int(tensor.bytes)
        yield tensor.name, "forward", size
        yield f"gradient of {tensor.name}", "backward", size


def _weight(setting: Setting, weight: Weight) -> Iterator[tuple[str, str, int]]:
    """A weight, its gradient, and one fp32 tensor of its shape, as a foreach step makes."""
    recipe, numel = setting.precision, weight.numel
    yield weight.name, "load", int(dtype(weight.format or recipe.weights).storage(numel))
    if setting.casts:
        yield f"cast of {weight.name}", "forward", int(dtype(recipe.compute).storage(numel))
    if not weight.trains:
        return
    made = dtype(weight.format or setting.gradient_format).storage(numel)
    yield f"gradient of {weight.name}", "backward", int(made)
    if setting.zero == 0:
        stepped = dtype(weight.format or recipe.master or recipe.weights).storage(numel)
        yield f"moment or temporary of {weight.name}", "optimizer step", int(stepped)


def _buffers(setting: Setting, ledger: StageLedger) -> Iterator[tuple[str, str, int]]:
    """Storages that belong to many weights at once."""
    held = states(setting, ledger)
    yield "all parameters of the stage, flat", "load", int(held.parameters)
    yield "all gradients of the stage, flat", "load", int(held.gradients)
    yield "all master weights of the stage, flat", "load", int(held.master_weights)
    yield "one moment of all weights, flat", "optimizer step", int(held.optimizer_states) // 2
    if setting.gathers:
        yield from _units(setting, ledger)
    yield "gradient buckets", "backward", int(gradient_buckets(setting, ledger))
    yield "pipeline receive buffers", "forward", int(pipeline_receives(setting, ledger))


def _units(setting: Setting, ledger: StageLedger) -> Iterator[tuple[str, str, int]]:
    """What a sharding engine gathers at once, and the gradient that it reduces."""
    wire = dtype(setting.precision.reduction)
    ends = (*weights_of(ledger.embedding), *weights_of(ledger.head))
    units = [("a layer", weights_of(operations)) for operations in ledger.layers.values()]
    for name, weights in (*units, ("the embedding and head", ends)):
        whole = int(total(whole_bytes(setting, weight) for weight in weights))
        yield f"parameters of {name}, gathered", "gather of parameters", whole
        trained = total(weight.numel for weight in weights if weight.trains)
        yield f"gradients of {name}, to be reduced", "backward", int(wire.storage(trained))
