"""What the parts of a model cost, as columns: what bounds are made of.

A stage is some layers of each kind, and perhaps an end. Its work is the sum of theirs, and
what it holds is no less than the sum of theirs. So the parts are weighed once for all rows of
degrees, by the same functions of `tonnage.timing` and `tonnage.memory` that weigh a whole plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import Number, total
from tonnage.arch import Layer
from tonnage.ledger import Operations, StageLedger, saved_bytes, stage_ledgers
from tonnage.ledger.layer import layer_input
from tonnage.ledger.loss_copies import loss_bytes
from tonnage.ledger.model import whole_stage
from tonnage.ledger.operation import Phase
from tonnage.memory.activations import alternates, saved_by
from tonnage.memory.outside import outside
from tonnage.memory.states import passing_gradients, states
from tonnage.plan import Plan, Setting, Stage, resolve
from tonnage.plan.schedule import OVERLAPPED
from tonnage.search.legality import Columns
from tonnage.search.modes import NONE, Mode
from tonnage.search.slices import table_of
from tonnage.search.space import Space
from tonnage.search.table import DECIDING, View
from tonnage.timing.kernel import rates
from tonnage.timing.loss import loss_seconds
from tonnage.timing.passes import one_pass
from tonnage.timing.stage import exchange_shown, layer_times

Floats = NDArray[np.float64]

WAYS: Final[tuple[Phase, ...]] = ("forward", "backward")

ROUNDING = 16
"""Bytes that rounding up each part by itself can add to a sum that is rounded up once."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Seconds of one micro-batch; kinds of layers by rows of degrees, ``[kind, row]``.

    Attributes:
        forward: of the forward pass.
        both: of both passes.
        hidden: of each, the experts' exchange that schedules of `OVERLAPPED` hide.
        ahead: compute of the forward pass.
        late: compute of the weights' gradients, which some schedules put off.
        compute: of both passes.
        selected: what each selective mode repeats, by its modules.
        embedding: both passes before the first layer, by row.
        head: both passes after the last layer, with each loss, by row.
    """

    forward: Floats
    both: Floats
    hidden: tuple[Floats, Floats]
    ahead: Floats
    late: Floats
    compute: Floats
    selected: dict[tuple[str, ...], Floats]
    embedding: Floats
    head: dict[str, Floats]

    def passes(self, schedule: str) -> tuple[Floats, Floats]:
        """The forward pass, and both, without what a schedule hides."""
        if schedule not in OVERLAPPED:
            return self.forward, self.both
        forward, both = self.hidden
        return self.forward - forward, self.both - both


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


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Many rows at once: their setting, and the model's parts as they see them.

    Attributes:
        space: the space that the rows are of.
        setting: their setting.
        kept: whether what is found out about a part is kept for the plans weighed later.
        rows: how many.
    """

    space: Space
    setting: Setting
    kept: bool
    rows: int

    @classmethod
    def of(cls, space: Space, fields: dict[str, Any], rows: Columns, *, kept: bool = True) -> Parts:
        """The parts of some rows: the first is resolved, the others stand beside it.

        Args:
            space: the space.
            fields: of a plan that is legal with the first row.
            rows: degrees, with what parameters are sharded over.
            kept: see the attribute.
        """
        plan = plan_of_row(space, fields, rows, 0)
        resolved = resolve(plan, space.question.architecture, space.cluster)
        setting = resolved.setting.columns(**rows)
        return cls(space=space, setting=setting, kept=kept, rows=len(rows["tp"]))

    def ledger(self, setting: Setting) -> StageLedger:
        """The whole model as one stage."""
        architecture, alone = setting.architecture, setting.plan.pp == 1
        stage = whole_stage(architecture)
        if not self.kept:
            return stage_ledgers(setting, (stage,))[0]
        table = table_of(architecture)
        numbers = {name: getattr(setting, name) for name in DECIDING}
        return View(table, setting, table.rows(numbers)).ledger(stage, alone=alone)

    def work(self, modes: Sequence[Mode]) -> Work:
        """Their seconds.

        Args:
            modes: ways of recomputation; the selective ones count.
        """
        setting, cluster = self.setting, self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        ledger = self.ledger(setting)
        times = layer_times(setting, (ledger,), cluster, rate)
        selected = {}
        for mode in modes:
            if mode["recompute"] == "selective":
                chosen = _with(setting, mode)
                found = layer_times(chosen, (self.ledger(chosen),), cluster, rate)
                selected[mode["recompute_modules"]] = self._table(
                    [time.selected for time in found.values()]
                )
        heads = {}
        for loss in self.space.losses:
            of_loss = with_loss(setting, loss)
            passes = self._passes(of_loss, self.ledger(of_loss).head)
            heads[loss] = self._column(passes + loss_seconds(of_loss, rate))
        forward, backward = ([getattr(t, way) for t in times.values()] for way in WAYS)
        seconds = [self._table([each.seconds for each in way]) for way in (forward, backward)]
        compute = [self._table([each.compute for each in way]) for way in (forward, backward)]
        share = 1.0 - exchange_shown(setting)
        hidden = [
            share * self._table([each.exposed["expert_parallel"] for each in way])
            for way in (forward, backward)
        ]
        return Work(
            forward=seconds[0],
            both=seconds[0] + seconds[1],
            hidden=(hidden[0], hidden[0] + hidden[1]),
            ahead=compute[0],
            late=self._table([time.weights for time in times.values()]),
            compute=compute[0] + compute[1],
            selected=selected,
            embedding=self._column(self._passes(setting, ledger.embedding)),
            head=heads,
        )

    def room(self, modes: Sequence[Mode]) -> Room:
        """The bytes of their activations. See `work`."""
        setting = self.setting
        ledger = self.ledger(setting)
        kept = {}
        for mode in (NONE, *modes):
            modules = mode.get("recompute_modules", ())
            if mode["recompute"] == "full" or modules in kept:
                continue
            chosen = _with(setting, mode)
            layers = self.ledger(chosen).layers.values()
            sizes = [saved_bytes(chosen, operations) for operations in layers]
            kept[modules] = self._table([0 if alternates(chosen.plan) else s for s in sizes])
        losses = {loss: with_loss(setting, loss) for loss in self.space.losses}
        return Room(
            kept=kept,
            entry=self._column(layer_input(setting).bytes),
            saved=(
                self._column(saved_by(setting, ledger.embedding)),
                self._column(saved_by(setting, ledger.head)),
            ),
            logits={loss: self._column(loss_bytes(run)) for loss, run in losses.items()},
            outside=self._column(outside(setting, self.space.cluster.device).bytes),
        )

    def held(self) -> Held:
        """The bytes of their states."""
        ledger = self.ledger(self.setting)
        found = [self._states(_unit(layer, part)) for layer, part in ledger.layers.items()]
        return Held(
            resting=np.stack([resting for resting, _ in found]),
            stepping=np.stack([stepping for _, stepping in found]),
            ends=(
                self._states(_end(ledger.embedding, ())),
                self._states(_end((), ledger.head)),
            ),
        )

    def _states(self, ledger: StageLedger) -> tuple[Floats, Floats]:
        """What stays of a part while layers run, and all that a step of the optimizer reads."""
        setting = self.setting
        held = states(setting, ledger)
        weights = held.parameters + held.master_weights
        gradients = held.gradients - passing_gradients(setting, ledger)
        later = held.optimizer_states if setting.plan.iteration == "steady" else 0
        grown = gradients if setting.runtime.gradient_buffer == "persistent" else 0
        return (
            self._column(weights + later + grown) - ROUNDING,
            self._column(weights + gradients + held.optimizer_states) - ROUNDING,
        )

    def _passes(self, setting: Setting, operations: Operations) -> Number:
        cluster = self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        return total(
            one_pass(setting, operations, phase, rate, cluster, False).seconds for phase in WAYS
        )

    def _column(self, value: Number) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (self.rows,))

    def _table(self, values: Sequence[Number]) -> Floats:
        return np.stack([self._column(value) for value in values])


def with_loss(setting: Setting, loss: str) -> Setting:
    """The run with its cross-entropy computed in another way."""
    habits = dataclasses.replace(setting.runtime, loss=loss)  # type: ignore[arg-type]
    plan = dataclasses.replace(setting.plan, loss=loss)
    return dataclasses.replace(setting, runtime=habits, plan=plan)


def _with(setting: Setting, mode: Mode) -> Setting:
    return dataclasses.replace(setting, plan=dataclasses.replace(setting.plan, **mode))


def _unit(layer: Layer, operations: Operations) -> StageLedger:
    stage = Stage(index=0, chunks=((layer,),), embedding=False, head=False)
    return StageLedger(stage=stage, layers={layer: operations}, embedding=(), head=(), vision=())


def _end(before: Operations, after: Operations) -> StageLedger:
    stage = Stage(index=0, chunks=((),), embedding=bool(before), head=bool(after))
    return StageLedger(stage=stage, layers={}, embedding=before, head=after, vision=())
