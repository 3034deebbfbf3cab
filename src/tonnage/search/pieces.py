"""What the parts of a model cost, as columns: what bounds are made of.

A stage is some layers of each kind, and perhaps an end. Its work is the sum of theirs, and
what it holds is no less than the sum of theirs. So the parts are weighed once for all rows of
degrees, by the same functions of `tonnage.timing` and `tonnage.memory` that weigh a whole plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import Number
from tonnage.ledger import Operations, StageLedger, saved_bytes, stage_ledgers
from tonnage.ledger.embedding import embedding
from tonnage.ledger.head import head
from tonnage.ledger.layer import layer_input
from tonnage.ledger.loss_copies import loss_bytes
from tonnage.ledger.model import whole_stage
from tonnage.ledger.operation import union_bytes
from tonnage.memory.activations import alternates
from tonnage.memory.outside import outside
from tonnage.memory.states import passing_gradients, states
from tonnage.plan import Plan, Setting, Stage, resolve
from tonnage.search.legality import Columns
from tonnage.search.modes import NONE, Mode
from tonnage.search.space import Space
from tonnage.timing.kernel import rates
from tonnage.timing.loss import loss_seconds
from tonnage.timing.passes import one_pass
from tonnage.timing.stage import layer_times

Floats = NDArray[np.float64]

ROUNDING = 16
"""Bytes that rounding up each part by itself can add to a sum that is rounded up once."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Seconds of one micro-batch; kinds of layers by rows of degrees, ``[kind, row]``.

    Attributes:
        forward: of the forward pass.
        both: of both passes.
        selected: what each selective mode repeats, by its modules.
        embedding: both passes before the first layer, by row.
        head: both passes after the last layer, with each loss, by row.
    """

    forward: Floats
    both: Floats
    selected: dict[tuple[str, ...], Floats]
    embedding: Floats
    head: dict[str, Floats]


@dataclass(frozen=True, kw_only=True)
class Room:
    """Bytes of activations; kinds of layers by rows of degrees, ``[kind, row]``.

    Attributes:
        kept: what one micro-batch leaves between its passes, by the modules recomputed.
        entry: the input of a layer, by row.
        saved: what one micro-batch leaves of embedding and head, by row.
        logits: logits and their copies with each loss, by row.
        outside: what lies outside the allocator, by row.
    """

    kept: dict[tuple[str, ...], Floats]
    entry: Floats
    saved: tuple[Floats, Floats]
    logits: dict[str, Floats]
    outside: Floats


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes of states under one ZeRO stage; kinds of layers by shards, ``[kind, shard]``.

    Attributes:
        resting: what is there while layers run.
        stepping: what is there in a step of the optimizer.
        ends: both of the embedding, and both of the head, by shard.
    """

    resting: Floats
    stepping: Floats
    ends: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


def plan_of_row(space: Space, fields: dict[str, Any], rows: Columns, index: int) -> Plan:
    """The plan of one row, with what its group shares."""
    names = ("tp", "cp", "ep", "etp", "dp", "mbs", "grad_acc", "seq")
    numbers = {name: int(rows[name][index]) for name in names}
    return dataclasses.replace(space.base, **{**fields, **numbers})


def setting_of_rows(space: Space, fields: dict[str, Any], rows: Columns) -> Setting:
    """The setting of many rows at once: the first is resolved, the others stand beside it."""
    plan = plan_of_row(space, fields, rows, 0)
    resolved = resolve(plan, space.question.architecture, space.cluster)
    return resolved.setting.columns(**rows)


def work(space: Space, fields: dict[str, Any], rows: Columns, modes: Sequence[Mode]) -> Work:
    """The seconds of the parts.

    Args:
        space: the space.
        fields: of a plan that is legal with the first row.
        rows: degrees, with what parameters are sharded over.
        modes: ways of recomputation; the selective ones count.
    """
    setting = setting_of_rows(space, fields, rows)
    cluster, efficiency = space.cluster, space.question.limits.efficiency
    rate = rates(setting, cluster.device, efficiency)
    (ledger,) = stage_ledgers(setting, (whole_stage(setting.architecture),))
    times = layer_times(setting, (ledger,), cluster, rate)
    count = len(rows["tp"])

    def passes(operations: Operations) -> Floats:
        both = (
            one_pass(setting, operations, phase, rate, cluster, layer=False).seconds
            for phase in ("forward", "backward")
        )
        return _column(sum(both), count)

    selected = {}
    for mode in modes:
        if mode["recompute"] == "selective":
            chosen = _with(setting, mode)
            found = layer_times(chosen, (ledger,), cluster, rate)
            selected[mode["recompute_modules"]] = _table(
                [time.selected for time in found.values()], count
            )
    heads = {}
    for loss in space.losses:
        of_loss = with_loss(setting, loss)
        heads[loss] = passes(_ends(of_loss)[1]) + _column(loss_seconds(of_loss, rate), count)
    return Work(
        forward=_table([time.forward.seconds for time in times.values()], count),
        both=_table(
            [time.forward.seconds + time.backward.seconds for time in times.values()], count
        ),
        selected=selected,
        embedding=passes(_ends(setting)[0]),
        head=heads,
    )


def room(space: Space, fields: dict[str, Any], rows: Columns, modes: Sequence[Mode]) -> Room:
    """The bytes of the parts' activations. See `work`."""
    setting = setting_of_rows(space, fields, rows)
    count = len(rows["tp"])
    (ledger,) = stage_ledgers(setting, (whole_stage(setting.architecture),))
    kept = {}
    for mode in (NONE, *modes):
        modules = mode.get("recompute_modules", ())
        chosen = _with(setting, mode)
        if mode["recompute"] == "full" or modules in kept:
            continue
        sizes = [saved_bytes(chosen, operations) for operations in ledger.layers.values()]
        kept[modules] = _table([0 if alternates(chosen.plan) else s for s in sizes], count)
    saved = [union_bytes(t for op in part for t in op.saves) for part in _ends(setting)]
    return Room(
        kept=kept,
        entry=_column(layer_input(setting).bytes, count),
        saved=(_column(saved[0], count), _column(saved[1], count)),
        logits={
            loss: _column(loss_bytes(with_loss(setting, loss)), count) for loss in space.losses
        },
        outside=_column(outside(setting, space.cluster.device).bytes, count),
    )


def held(space: Space, fields: dict[str, Any], rows: Columns) -> Held:
    """The bytes of the parts' states, by row with what it is sharded over. See `work`."""
    setting = setting_of_rows(space, fields, rows)
    count = len(rows["tp"])
    (ledger,) = stage_ledgers(setting, (whole_stage(setting.architecture),))
    units = [_unit(layer, operations) for layer, operations in ledger.layers.items()]
    before, after = _ends(setting)
    found = [_states(setting, unit, count) for unit in units]
    return Held(
        resting=np.stack([resting for resting, _ in found]),
        stepping=np.stack([stepping for _, stepping in found]),
        ends=(
            _states(setting, _end(before, ()), count),
            _states(setting, _end((), after), count),
        ),
    )


def _ends(setting: Setting) -> tuple[Operations, Operations]:
    return embedding(setting)[0], head(setting, owns_tied_table=setting.plan.pp > 1)


def with_loss(setting: Setting, loss: str) -> Setting:
    """The run with its cross-entropy computed in another way."""
    habits = dataclasses.replace(setting.runtime, loss=loss)  # type: ignore[arg-type]
    return dataclasses.replace(setting, runtime=habits)


def _with(setting: Setting, mode: Mode) -> Setting:
    return dataclasses.replace(setting, plan=dataclasses.replace(setting.plan, **mode))


def _unit(layer: Any, operations: Operations) -> StageLedger:
    stage = Stage(index=0, chunks=((layer,),), embedding=False, head=False)
    return StageLedger(stage=stage, layers={layer: operations}, embedding=(), head=(), vision=())


def _end(before: Operations, after: Operations) -> StageLedger:
    stage = Stage(index=0, chunks=((),), embedding=bool(before), head=bool(after))
    return StageLedger(stage=stage, layers={}, embedding=before, head=after, vision=())


def _states(setting: Setting, ledger: StageLedger, count: int) -> tuple[Floats, Floats]:
    """What stays of a part while layers run, and all that a step of the optimizer reads."""
    held = states(setting, ledger)
    weights = held.parameters + held.master_weights
    later = held.optimizer_states if setting.plan.iteration == "steady" else 0
    grown: Number = 0
    if setting.runtime.gradient_buffer == "persistent":
        grown = held.gradients - passing_gradients(setting, ledger)
    stepped = held.gradients - passing_gradients(setting, ledger) + held.optimizer_states
    return (
        _column(weights + later + grown, count) - ROUNDING,
        _column(weights + stepped, count) - ROUNDING,
    )


def _column(value: Number, count: int) -> Floats:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))


def _table(values: Sequence[Number], count: int) -> Floats:
    return np.stack([_column(value, count) for value in values])
