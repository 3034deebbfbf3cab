"""What the parts of a model cost, as columns: what bounds are made of.

A stage is some layers of each kind, and perhaps an end. Its work is the sum of theirs, and
what it holds is no less than the sum of theirs. So the parts are weighed once for all rows of
degrees, by the same functions of `tonnage.timing` and `tonnage.memory` that weigh a whole plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.algebra import Number, largest, total, where
from tonnage.arch import Layer
from tonnage.ledger import Operations, StageLedger, saved_bytes, stage_ledgers
from tonnage.ledger.layer import layer_input
from tonnage.ledger.loss_copies import loss_bytes
from tonnage.ledger.model import whole_stage
from tonnage.ledger.operation import Phase
from tonnage.ledger.selective import OUTPUTS
from tonnage.memory.activations import alternates, saved_by, transients
from tonnage.memory.gathered import stays_whole, whole_parameters
from tonnage.memory.gradients import left_by_microbatch
from tonnage.memory.optimizer_step import step_temporaries
from tonnage.memory.outside import outside
from tonnage.memory.reserved import replays, touched_late
from tonnage.memory.states import passing_gradients, states
from tonnage.plan import Plan, Setting, Stage, resolve
from tonnage.plan.schedule import OVERLAPPED
from tonnage.search.costs import Floats, Held, Room, Waiting, Window, Work
from tonnage.search.exchange import Exchange, beside, passes, stacked
from tonnage.search.legality import Columns
from tonnage.search.modes import NONE, Mode
from tonnage.search.slices import table_of
from tonnage.search.space import Space
from tonnage.search.table import DECIDING, View
from tonnage.timing.clocks import QUEUE
from tonnage.timing.host_memory import exposed_step
from tonnage.timing.kernel import Rates, rates
from tonnage.timing.loss import loss_seconds
from tonnage.timing.passes import one_pass
from tonnage.timing.replicas import PHASES, optimizer_seconds
from tonnage.timing.stage import LayerTime, exchange_shown, layer_times, stage_time

STATES = ("resting", "filled", "stepping")

ROUNDING = 32
"""Bytes that rounding up each part by itself can add to a sum that is rounded up once."""


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
        forward, backward = ([getattr(t, way) for t in times.values()] for way in PHASES)
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
            head=self._heads(rate),
            window=self._window(ledger, times, rate),
        )

    def microbatch(self, schedules: Iterable[str]) -> dict[str, Floats]:
        """Seconds of one micro-batch through the whole model, without recomputation, by schedule.

        The least of all losses.
        """
        setting, cluster = self.setting, self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        ledger = self.ledger(setting)
        counts = setting.architecture.kinds()
        passes = [
            (counts[layer], one_pass(setting, operations, phase, rate, cluster))
            for layer, operations in ledger.layers.items()
            for phase in PHASES
        ]
        ends = self._passes(setting, ledger.embedding)
        ends = ends + np.minimum.reduce(list(self._heads(rate).values()))
        whole = self._column(total(count * each.seconds for count, each in passes) + ends)
        exchanged = total(count * each.exposed["expert_parallel"] for count, each in passes)
        hidden = self._column((1.0 - exchange_shown(setting)) * exchanged)
        return {name: whole - hidden if name in OVERLAPPED else whole for name in schedules}

    def _heads(self, rate: Rates) -> dict[str, Floats]:
        """Both passes after the last layer, with each loss, by row."""
        heads = {}
        for loss in self.space.losses:
            run = with_loss(self.setting, loss)
            passes = self._passes(run, self.ledger(run).head)
            heads[loss] = self._column(passes + loss_seconds(run, rate))
        return heads

    def _window(self, ledger: StageLedger, times: Mapping[Layer, LayerTime], rate: Rates) -> Window:
        """The compute of each part alone, as a stage of its own has it."""

        def compute(unit: StageLedger) -> dict[Phase, Floats]:
            found = [
                stage_time(with_loss(self.setting, loss), unit, times, self.space.cluster, rate)
                for loss in self.space.losses
            ]
            return {
                "forward": self._column(largest(time.forward for time in found)),
                "backward": self._column(largest(time.backward for time in found)),
            }

        layers = [compute(_unit(layer, part)) for layer, part in ledger.layers.items()]
        return Window(
            layers={phase: np.stack([layer[phase] for layer in layers]) for phase in PHASES},
            ends=(
                compute(_end(ledger.embedding, ())),
                compute(dataclasses.replace(_end((), ledger.head), predictors=ledger.predictors)),
            ),
        )

    def room(self, modes: Sequence[Mode]) -> Room:
        """The bytes of their activations. See `work`."""
        setting = self.setting
        ledger = self.ledger(setting)
        kept, beside = {}, {}
        for mode in (NONE, *modes):
            modules = mode.get("recompute_modules", ())
            if mode["recompute"] == "full" or modules in kept:
                continue
            chosen = _with(setting, mode)
            layers = self.ledger(chosen).layers.values()
            sizes = [saved_bytes(chosen, operations) for operations in layers]
            partly = alternates(chosen.plan) or OUTPUTS in modules
            kept[modules] = self._table([0 if alternates(chosen.plan) else s for s in sizes])
            units = [_unit(layer, part) for layer, part in self.ledger(chosen).layers.items()]
            least = [0 if partly else transients(chosen, unit).backward for unit in units]
            beside[modules] = np.minimum.reduce([self._column(size) for size in least])
        losses = {loss: with_loss(setting, loss) for loss in self.space.losses}
        buffered = setting.runtime.pipeline_buffers == "each"
        return Room(
            kept=kept,
            beside=beside,
            entry=self._column(layer_input(setting).bytes),
            waiting=self._waiting(ledger) if replays(setting) and not buffered else None,
            buffered=buffered,
            saved=(
                self._column(saved_by(setting, ledger.embedding)),
                self._column(saved_by(setting, ledger.head)),
            ),
            logits={loss: self._column(loss_bytes(run)) for loss, run in losses.items()},
            outside=self._column(outside(setting, self.space.cluster.device).bytes),
        )

    def _waiting(self, ledger: StageLedger) -> Waiting:
        late = [touched_late(self.setting, operations) for operations in ledger.layers.values()]
        passes = 3 if self.setting.plan.recompute == "full" else 2
        queues = [QUEUE * each.bytes / each.entries for each in late]
        return Waiting(
            once=self._table([each.bytes / passes for each in late]),
            queue=np.minimum.reduce([self._column(queue) for queue in queues]),
        )

    def held(self) -> Held:
        """The bytes of their states."""
        ledger = self.ledger(self.setting)
        found = [self._states(_unit(layer, part)) for layer, part in ledger.layers.items()]
        return Held(
            **{
                name: np.stack(columns)
                for name, columns in zip(STATES, zip(*found, strict=True), strict=True)
            },
            ends=(
                self._states(_end(ledger.embedding, ())),
                self._states(_end((), ledger.head)),
            ),
            exchange=self._exchange(ledger),
        )

    def _exchange(self, ledger: StageLedger) -> Exchange:
        setting, cluster = self.setting, self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        units = [_unit(layer, part) for layer, part in ledger.layers.items()]
        ends = _end(ledger.embedding, ()), _end((), ledger.head)
        found = [beside(setting, unit, cluster, rate, self.rows) for unit in (*units, *ends)]
        return Exchange(
            setting=setting,
            layers=stacked(found[:-2]),
            ends=(found[-2].stepped, found[-1].stepped),
            passes=passes(setting, units[0], self.rows),
            host=self._stepping(ledger) if setting.plan.held_on_host else None,
        )

    def _stepping(self, ledger: StageLedger) -> Floats:
        """Seconds of the optimizer's step, on device and host: the slowest stage's, at the least.

        What the mean of them takes; each stage rounds up by itself.
        """
        setting, cluster = self.setting, self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        device = optimizer_seconds(setting, ledger, rate)
        away = exposed_step(setting, ledger, cluster, device)
        mean: Floats = self._column((device + away) / setting.plan.pp) * (1 - 1e-6)
        return mean

    def _states(self, ledger: StageLedger) -> tuple[Floats, Floats, Floats]:
        """What stays of a part while layers run, and all that a step of the optimizer reads.

        Of the former once without and once with what a micro-batch has left.
        """
        setting = self.setting
        held = states(setting, ledger)
        weights = held.parameters + held.master_weights
        gradients = held.gradients - passing_gradients(setting, ledger)
        later = held.optimizer_states if setting.plan.iteration == "steady" else 0
        persistent = setting.runtime.gradient_buffer == "persistent"
        resting = weights + later + (gradients if persistent else 0)
        if stays_whole(setting):
            resting = resting + where(setting.shard > 1, whole_parameters(setting, ledger), 0)
        left: Number = 0
        aside: Number = 0
        if not setting.plan.optimizer_in_backward:
            aside = step_temporaries(setting, ledger, held)
        if not persistent and not setting.plan.optimizer_in_backward:
            left = left_by_microbatch(setting, ledger.pieces())
        return (
            self._column(resting) - ROUNDING,
            self._column(resting + left) - ROUNDING,
            self._column(weights + gradients + held.optimizer_states + aside) - ROUNDING,
        )

    def _passes(self, setting: Setting, operations: Operations) -> Number:
        cluster = self.space.cluster
        rate = rates(setting, cluster.device, self.space.question.limits.efficiency)
        return total(
            one_pass(setting, operations, phase, rate, cluster, False).seconds for phase in PHASES
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
