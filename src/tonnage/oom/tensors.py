"""Every storage that a step of a run asks its allocator for: what, when, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tonnage.algebra import ceil_div, total
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.layer import layer_input
from tonnage.ledger.loss import known, loss
from tonnage.ledger.operation import Tensor, Weight, weights_of
from tonnage.memory.gathered import whole_bytes
from tonnage.memory.states import states
from tonnage.oom.traceback import Moment
from tonnage.plan import Setting

Asked: TypeAlias = tuple[str, Moment, int]
"""A storage: its name, the moment when it is asked for, and its bytes."""


def tensors(setting: Setting, ledger: StageLedger) -> Iterator[Asked]:
    """What a stage asks for in a step, and while it is set up."""
    for operations in (*ledger.layers.values(), ledger.embedding, ledger.head):
        yield from _activations(operations, "forward")
    if ledger.head and known(setting):
        yield from _activations(loss(setting), "loss")
    for weight, _ in ledger.weights():
        yield from _weight(setting, weight)
    yield from _flat(setting, ledger)
    if setting.gathers:
        yield from _units(setting, ledger)
    yield from _exchanged(setting, ledger)


def _activations(operations: Operations, moment: Moment) -> Iterator[Asked]:
    """What operations write and keep, a gradient of each, and what lives while one runs."""
    overwritten = {operation.gradient_into for operation in operations}
    for operation in operations:
        for tensor in (*operation.outputs, *operation.saves):
            yield tensor.name, moment, int(tensor.bytes)
            if tensor.name not in overwritten:
                yield f"gradient of {tensor.name}", "backward", int(tensor.bytes)
        for tensor in operation.scratch:
            yield tensor.name, moment, int(tensor.bytes)
        for tensor in operation.scratch_backward:
            yield tensor.name, "backward", int(tensor.bytes)


def _weight(setting: Setting, weight: Weight) -> Iterator[Asked]:
    """A weight before it is sharded, its gradient, and what an optimizer makes of its shape."""
    recipe, numel = setting.precision, weight.numel
    yield weight.name, "load", int(dtype(weight.format or recipe.weights).storage(numel))
    if setting.casts:
        yield f"cast of {weight.name}", "forward", int(dtype(recipe.compute).storage(numel))
    if setting.gathers and setting.runtime.sharding in ("fully-sharded", "partitioned"):
        whole = int(whole_bytes(setting, weight))
        yield f"{weight.name}, gathered", "gather of parameters", whole
    if not weight.trains:
        return
    made = dtype(weight.format or setting.gradient_format).storage(numel)
    yield f"gradient of {weight.name}", "backward", int(made)
    stepped = dtype(weight.format or recipe.master or recipe.weights)
    rows = _rows(setting, weight)
    if rows is not None:
        name = f"moment or temporary of {weight.name}"
        yield name, "optimizer step", int(stepped.storage(rows))


def _rows(setting: Setting, weight: Weight) -> int | None:
    """Elements of a weight that one rank steps; None where it steps a flat piece of all of them.

    ``fully_shard`` cuts each weight along its first axis.
    """
    if setting.zero == 0:
        return int(weight.numel)
    if setting.runtime.sharding != "fully-sharded" or not weight.shape:
        return None
    shard = setting.expert_shard if weight.group == "expert" else setting.shard
    first = int(weight.shape[0])
    return int(ceil_div(first, shard)) * int(weight.numel) // max(first, 1)


def _flat(setting: Setting, ledger: StageLedger) -> Iterator[Asked]:
    """Storages that hold all weights of a stage at once."""
    held, runtime = states(setting, ledger), setting.runtime
    if runtime.gradient_buffer == "persistent":
        yield "all gradients of the stage, flat", "load", int(held.gradients)
    if setting.zero and runtime.sharding in ("partitioned", "distributed-optimizer"):
        yield "all parameters of the rank, flat", "load", int(held.parameters)
        yield "all master weights of the rank, flat", "load", int(held.master_weights)
        half = int(held.optimizer_states) // 2
        yield "one moment of all weights of the rank, flat", "optimizer step", half


def _units(setting: Setting, ledger: StageLedger) -> Iterator[Asked]:
    """What a sharding engine gathers at once, and the gradient that it reduces."""
    recipe, flat = setting.precision, setting.runtime.sharding == "flat-units"
    wire, stepped = dtype(recipe.reduction), dtype(recipe.master or recipe.weights)
    ends: tuple[tuple[str, Operations], ...] = (
        ("the embedding", ledger.embedding),
        ("the head", ledger.head),
        ("the embedding and head", (*ledger.embedding, *ledger.head)),
    )
    for name, operations in (*(("a layer", each) for each in ledger.layers.values()), *ends):
        weights = weights_of(operations)
        whole = int(total(whole_bytes(setting, weight) for weight in weights))
        yield f"parameters of {name}, gathered", "gather of parameters", whole
        trained = total(weight.numel for weight in weights if weight.trains)
        yield f"gradients of {name}, to be reduced", "backward", int(wire.storage(trained))
        shard = ceil_div(trained, setting.shard)
        yield f"reduced gradients of {name}", "backward", int(wire.storage(shard))
        if flat:
            size = int(stepped.storage(shard))
            yield f"moment or temporary of {name}", "optimizer step", size


def _exchanged(setting: Setting, ledger: StageLedger) -> Iterator[Asked]:
    """Buffers of what ranks send one another."""
    if setting.zero and setting.runtime.bucket_bytes:
        yield "bucket of gradients to be reduced", "backward", int(setting.runtime.bucket_bytes)
    if setting.plan.pp > 1:
        entry = int(layer_input(setting).bytes)
        if not ledger.stage.embedding:
            yield "activation received from the stage before", "forward", entry
        if not ledger.stage.head:
            yield "gradient received from the stage after", "backward", entry
    if setting.sp and setting.tp > 1:
        full = Tensor(
            name="activations gathered from the sequence shards",
            elements=setting.tokens * setting.architecture.hidden,
            format=setting.format,
        )
        yield full.name, "forward", int(full.bytes)
        yield full.name, "backward", int(full.bytes)
