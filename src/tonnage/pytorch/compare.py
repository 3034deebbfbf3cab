"""A dry run beside the ledger: the same quantities from the two of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tonnage.algebra import Number, total
from tonnage.ledger import Operation, Operations, StageLedger, saved_tensors, stage_ledgers
from tonnage.ledger.flops import layers_recomputed, run_again
from tonnage.ledger.head import loss_keeps
from tonnage.ledger.layer import recomputed_flops
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.shared import shared_tensors
from tonnage.memory import stage_memory
from tonnage.memory.activations import kept_by_chunk
from tonnage.memory.states import states
from tonnage.plan import Setting
from tonnage.pytorch.dryrun import DryRun
from tonnage.pytorch.trace import Allocation, Trace
from tonnage.timing.traffic import data_parallel_traffic, layer_traffic

RANDOM_STATE = frozenset({"uint64", "int64"})
"""Formats of what attention kernels keep of the random generator: 16 or 24 bytes a layer."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity, twice.

    Attributes:
        name: what it is.
        unit: ``bytes`` or ``FLOPs``.
        dry_run: what the dry run recorded.
        ledger: what the ledger says.
        exact: the two must be equal; else they stand for nearly the same thing.
    """

    name: str
    unit: str
    dry_run: int
    ledger: int
    exact: bool = True

    @property
    def difference(self) -> int:
        """The ledger's figure less the dry run's."""
        return self.ledger - self.dry_run


def compare(run: DryRun) -> tuple[Comparison, ...]:
    """States, saved activations, FLOPs and the peak of a dry run beside the ledger's."""
    setting = run.resolved.setting
    (ledger,) = stage_ledgers(setting, run.resolved.stages)
    held, trace = states(setting, ledger), run.trace
    kept = sum(_kept_bytes(allocation) for allocation in trace.saved())
    sizes = (
        ("parameters", trace.most_of("parameter"), held.parameters),
        ("gradients", trace.most_of("gradient"), held.gradients),
        ("optimizer states", trace.most_of("optimizer state"), held.optimizer_states),
        ("saved activations", kept // int(setting.grad_acc), _saved(setting, ledger)),
    )
    peak = int(stage_memory(setting, ledger).allocated)
    near = (_bytes("peak", trace.peak.bytes, peak), *_sent(run, ledger))
    return (
        *(_bytes(name, recorded, said) for name, recorded, said in sizes),
        *_flops(run),
        *(dataclasses.replace(row, exact=False) for row in near),
    )


def saved_by_layer(run: DryRun) -> tuple[tuple[Comparison, ...], Comparison]:
    """Saved activations of a micro-batch by layer, and of all that is no layer.

    Without recomputation.

    A tensor belongs to the first layer that keeps it. Rotary tables are made outside the
    layers, and stand with what is no layer.
    """
    setting = run.resolved.setting
    (ledger,) = stage_ledgers(setting, run.resolved.stages)
    layers = run.architecture.layers
    found = [0] * (len(layers) + 1)
    for allocation in run.trace.saved():
        place = _layer_of(allocation)
        found[len(layers) if place is None else place] += _kept_bytes(allocation)
    found = [size // int(setting.grad_acc) for size in found]
    said = [union_bytes(saved_tensors(ledger.layers[layer])) for layer in layers]
    pairs = enumerate(zip(found, said, strict=False))
    inside = tuple(_bytes(f"layer {place}", one, other) for place, (one, other) in pairs)
    return inside, _bytes("outside the layers", found[-1], _outside(setting, ledger))


def _sent(run: DryRun, ledger: StageLedger) -> list[Comparison]:
    """Full tensors of a step's collectives, by kind; groups of one send nothing."""
    setting = run.resolved.setting
    batches, again = int(setting.grad_acc), setting.plan.recompute == "full"
    traffic = list(data_parallel_traffic(setting, ledger))
    for operations in (ledger.embedding, ledger.head):
        traffic += layer_traffic(setting, operations, batches, rebuilt=False)
    for layer, count in ledger.stage.kinds().items():
        traffic += layer_traffic(setting, ledger.layers[layer], count * batches, rebuilt=again)
    found, said = Counter[str](), Counter[str]()
    for call in run.trace.collectives:
        if call.group > 1:
            found[call.kind] += call.bytes
    for item in traffic:
        if int(item.axis.size) > 1:
            said[str(item.collective.kind)] += int(item.count * item.collective.bytes)
    return [_bytes(f"sent by {kind}", found[kind], said[kind]) for kind in sorted(found | said)]


def _bytes(name: str, recorded: int, said: Number) -> Comparison:
    return Comparison(name=name, unit="bytes", dry_run=recorded, ledger=int(said))


def _kept_bytes(allocation: Allocation) -> int:
    attention = "scaled_dot_product" in allocation.operator
    return 0 if attention and allocation.format in RANDOM_STATE else allocation.bytes


def _layer_of(allocation: Allocation) -> int | None:
    if "rotary_emb" in allocation.module:
        return None
    path = (allocation.saver or allocation.module).split(".")
    return next((int(part) for part in path if part.isdigit()), None)


def _saved(setting: Setting, ledger: StageLedger) -> Number:
    return kept_by_chunk(setting, ledger, ledger.stage.chunks[0]) + _outside(setting, ledger)


def _outside(setting: Setting, ledger: StageLedger) -> Number:
    """What is kept before, beside and after the layers."""
    ends = [tensor for op in (*ledger.embedding, *ledger.head) for tensor in op.saves]
    return union_bytes((*ends, *shared_tensors(setting), *loss_keeps(setting)))


def _flops(run: DryRun) -> tuple[Comparison, ...]:
    """FLOPs of the step as it ran: whole squares of attention, kernels' own recomputation.

    The rotary tables are left out, which multiply frequencies by positions once a model.
    """
    setting = dataclasses.replace(run.resolved.setting, causal=False)
    (ledger,) = stage_ledgers(setting, run.resolved.stages)
    times = int(setting.grad_acc)

    def layers(count: Callable[[Operations], Number]) -> Number:
        return total(count(ledger.layers[layer]) for layer in run.architecture.layers)

    ends = (*ledger.embedding, *ledger.head)
    forward = layers(_forward) + _forward(ends)
    backward = layers(_backward) + _backward(ends)
    again = layers(lambda operations: recomputed_flops(setting, operations))
    for layer, often in layers_recomputed(setting, run.resolved.stages).items():
        again = again + often * _forward(run_again(setting, ledger.layers[layer]))
    return tuple(
        Comparison(name=name, unit="FLOPs", dry_run=recorded, ledger=int(said) * times)
        for name, recorded, said in (
            ("forward", _counted(run.trace, "forward", "loss"), forward),
            ("backward", _counted(run.trace, "backward"), backward),
            ("recomputation", _counted(run.trace, "recompute"), again),
        )
    )


def _counted(trace: Trace, *phases: str) -> int:
    return sum(
        flops
        for (module, phase), flops in trace.flops.items()
        if phase in phases and "rotary_emb" not in module
    )


def _forward(operations: Operations) -> Number:
    return total(operation.flops for operation in operations)


def _backward(operations: Operations) -> Number:
    def one(operation: Operation) -> Number:
        return operation.flops_backward + operation.flops_inside

    return total(one(operation) for operation in operations)
