"""The peak of one stage: a maximum over instants, and not a sum of categories."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tonnage.algebra import Number, largest, total, where
from tonnage.dtype import dtype
from tonnage.ledger import (
    Operations,
    StageLedger,
    head_in_pieces,
    logits_in_backward,
    logits_in_product,
    loss_bytes,
    stranded_logits,
)
from tonnage.ledger.embedding import token_table
from tonnage.ledger.mtp import predictors_losses
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.piece import RECOMPUTE, by_piece, sum_of
from tonnage.memory.activations import (
    Transients,
    backward_transients,
    held_by_frame,
    retained,
)
from tonnage.memory.alive import alive
from tonnage.memory.buffers import communication_buffers, deferred_logits
from tonnage.memory.casts import cached_casts
from tonnage.memory.gathered import Gathered, gathered
from tonnage.memory.gradients import Appearing, appearing, made_bytes
from tonnage.memory.optimizer_step import step_temporaries
from tonnage.memory.states import States, passing_gradients, states
from tonnage.memory.workspace import workspaces
from tonnage.plan import Setting
from tonnage.plan.schedule import SPLITS

CATEGORIES = (
    "parameters",
    "master_weights",
    "gradients",
    "optimizer_states",
    "activations",
    "logits_and_loss",
    "communication_buffers",
    "temporaries",
)


@dataclass(frozen=True, kw_only=True)
class Instant:
    """One candidate for the peak.

    Attributes:
        when: what happens then.
        categories: bytes of tensors, by category.
        stranded: bytes of freed blocks that nothing asked for around then fits into.
    """

    when: str
    categories: dict[str, Number]
    stranded: Number = 0

    @cached_property
    def allocated(self) -> Number:
        """Bytes of all tensors at this instant."""
        return total(self.categories.values())


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """The memory of one pipeline stage on one rank.

    Attributes:
        stage: position in the pipeline.
        instants: the candidates for its peak.
    """

    stage: int
    instants: tuple[Instant, ...]

    @property
    def allocated(self) -> Number:
        """Bytes of tensors at the peak; a column where the plan is one."""
        return largest(instant.allocated for instant in self.instants)

    @property
    def held(self) -> Number:
        """Bytes of tensors and of stranded blocks, at the instant where they are most."""
        return largest(total((instant.allocated, instant.stranded)) for instant in self.instants)

    @property
    def peak(self) -> Instant:
        """The instant of the peak (of one plan, not of a column)."""
        return max(self.instants, key=lambda instant: int(instant.allocated))


def stage_memory(setting: Setting, ledger: StageLedger) -> StageMemory:
    """Bytes of one stage at each instant that can be its peak.

    * forward: every live micro-batch, and what the last layer needs on its way;
    * the loss: on the last stage also the logits and their copies;
    * the head's backward: the logits, their gradient, and what the kernel needs; then the
      gradient alone, and that of what the head reads;
    * the first backward: the same micro-batches, what recomputation brings back, and the
      gradients of activations;
    * the last backward: all gradients, and one layer (or checkpointed group);
    * the embedding's backward: its gradient, and what other micro-batches keep;
    * one pass later, where gradients appear in backward; after a pass that put its weights'
      gradients off, where a schedule does that;
    * the step: no activations, but the optimizer's temporaries.
    """
    placed = placing(setting, ledger)
    moments = _with_side_pools(tuple(_moments(setting, ledger)))
    return StageMemory(
        stage=ledger.stage.index,
        instants=tuple(placed(moment) for moment in moments),
    )


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What an instant has of its own, beside states and lasting buffers; bytes.

    Attributes:
        when: what happens then.
        gradients: of weights.
        activations: kept for backward.
        loss: logits and their copies.
        whole: parameters gathered from their shards.
        temporaries: what lives only then.
        stranded: freed blocks that nothing asked for around then fits into.
        stepped: whether the optimizer's states exist in the first step too.
    """

    when: str
    gradients: Number
    activations: Number = 0
    loss: Number = 0
    whole: Number = 0
    temporaries: Number = 0
    stranded: Number = 0
    stepped: bool = False


def _with_side_pools(moments: tuple[Moment, ...]) -> tuple[Moment, ...]:
    """Gathers and reductions run on streams of their own.

    The allocator has a pool for each stream, and what one of them has freed serves no other: at
    every instant the reserve holds as much for them as they ever need.
    """
    most = largest(moment.whole for moment in moments)
    return tuple(
        dataclasses.replace(moment, stranded=moment.stranded + most - moment.whole)
        for moment in moments
    )


def placing(setting: Setting, ledger: StageLedger) -> Callable[[Moment], Instant]:
    """What puts the states and lasting buffers of a stage beside what a moment has of its own."""
    held = states(setting, ledger)
    buffers = communication_buffers(setting, ledger) + deferred_logits(setting, ledger)
    fixed = workspaces(setting, ledger)

    def placed(moment: Moment) -> Instant:
        there = moment.stepped or setting.plan.iteration == "steady"
        sizes = (
            held.parameters,
            held.master_weights,
            moment.gradients,
            held.optimizer_states if there else 0,
            moment.activations,
            moment.loss,
            buffers + moment.whole,
            moment.temporaries + fixed,
        )
        named = dict(zip(CATEGORIES, sizes, strict=True))
        return Instant(when=moment.when, categories=named, stranded=moment.stranded)

    return placed


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the moments of one stage are made of, but for its activations.

    Attributes:
        setting: the run.
        ledger: the stage.
        held: its states.
        whole: parameters gathered from their shards.
        beside: what lives beside the kept activations while layers run.
        grown: gradients, by moment.
    """

    setting: Setting
    ledger: StageLedger
    held: States
    whole: Gathered
    beside: Transients
    grown: Appearing

    def forward(self, activations: Number, gradients: Number) -> Moment:
        """The end of a forward pass, with what the last layer needs on its way."""
        return Moment(
            when="forward",
            gradients=gradients,
            activations=activations,
            whole=self.whole.layers,
            temporaries=self.beside.forward,
        )

    def loss(self, activations: Number, gradients: Number, losses: Number) -> Moment:
        """The loss: on the last stage also the logits and their copies."""
        head = bool(self.ledger.head)
        return Moment(
            when="loss",
            gradients=gradients,
            activations=activations + held_by_frame(self.setting, self.ledger.head),
            loss=losses * loss_bytes(self.setting) + self._further() if head else 0,
            whole=self.whole.loss,
            temporaries=cached_casts(self.setting, self.ledger),
            stranded=stranded_logits(self.setting) if head else 0,
        )

    def head_backward(self, activations: Number, gradients: Number) -> Moment:
        """The head's backward: the logits, their gradient, and what the kernel needs."""
        setting, head = self.setting, self.ledger.head
        return Moment(
            when="head backward",
            gradients=gradients,
            activations=activations,
            loss=logits_in_backward(setting) + self._further() if head else 0,
            whole=self.whole.loss,
            temporaries=_scratch(setting, head) + _head_pieces(setting, self.ledger),
        )

    def head_product(self, activations: Number, gradients: Number) -> Moment:
        """The head's product in backward: the gradient of what it reads beside the logits'."""
        setting, head = self.setting, self.ledger.head
        return Moment(
            when="head product",
            gradients=gradients,
            activations=activations,
            loss=logits_in_product(setting) + self._further() if head else 0,
            whole=self.whole.loss,
            temporaries=_scratch(setting, head) + _head_input_gradient(setting, self.ledger),
        )

    def _further(self) -> Number:
        """What the losses of further tokens keep until backward."""
        return predictors_losses(self.setting, self.ledger.predictors)

    def backward(self, when: str, activations: Number, gradients: Number) -> Moment:
        """Backward enters the last layer: what recomputation brings back, and gradients."""
        return Moment(
            when=when,
            gradients=gradients,
            activations=activations,
            whole=self.whole.layers,
            temporaries=self.beside.backward,
        )

    def last_layer(self, when: str, others: Number, gradients: Number) -> Moment:
        """Backward is in the first layer: of its own micro-batch one layer (or group) is left."""
        return Moment(
            when=when,
            gradients=gradients,
            activations=others + self.beside.last + retained(self.setting, self.ledger),
            whole=self.whole.layers,
        )

    def embedding_backward(self, activations: Number) -> Moment:
        """The embedding's backward: its gradient, and what other micro-batches keep."""
        return Moment(
            when="embedding backward",
            gradients=self.grown.end,
            activations=activations,
            whole=self.whole.end,
            temporaries=_embedding_gradient(self.setting, self.ledger),
        )

    def step(self) -> Moment:
        """The optimizer's step: no activations, but temporaries."""
        setting, ledger, held = self.setting, self.ledger, self.held
        return Moment(
            when="optimizer step",
            gradients=held.gradients - passing_gradients(setting, ledger),
            temporaries=step_temporaries(setting, ledger, held),
            stepped=True,
        )


def parts(setting: Setting, ledger: StageLedger, filled: Number) -> Parts:
    """The parts of one stage.

    Args:
        setting: the run.
        ledger: the stage.
        filled: whether a micro-batch has left its gradients when most activations are held.
    """
    held = states(setting, ledger)
    return Parts(
        setting=setting,
        ledger=ledger,
        held=held,
        whole=gathered(setting, ledger),
        beside=backward_transients(setting, ledger),
        grown=grown_gradients(setting, ledger, held, filled),
    )


def _moments(setting: Setting, ledger: StageLedger) -> Iterator[Moment]:
    """The moments of a step that can be its peak, in the order in which a step has them."""
    most = alive(setting, ledger)
    made = parts(setting, ledger, setting.turns * len(ledger.stage.chunks) > most.passes)
    grown = made.grown
    yield made.forward(most.forward, grown.early)
    yield made.loss(most.loss, grown.early, live_losses(setting))
    yield made.head_backward(most.head, grown.top)
    yield made.head_product(most.head, grown.top)
    yield made.backward("first backward", most.first, grown.top)
    if setting.plan.pp > 1 and setting.runtime.gradient_buffer == "in-backward":
        yield made.backward("second backward", most.second, grown.later)
    if setting.plan.schedule in SPLITS:
        yield made.last_layer("weights put off", most.late, grown.later)
    yield made.last_layer("last backward", most.others, grown.bottom)
    yield made.embedding_backward(most.end)
    yield made.step()


def grown_gradients(
    setting: Setting, ledger: StageLedger, held: States, filled: Number
) -> Appearing:
    """A persistent buffer is always there; else gradients appear one by one.

    What is added to the buffer at the end of a backward pass is there with the last layers only.
    """
    if setting.runtime.gradient_buffer == "in-backward":
        return appearing(setting, ledger, filled)
    whole = held.gradients
    resting = whole - passing_gradients(setting, ledger)
    return Appearing(early=resting, top=resting, later=resting, bottom=whole, end=whole)


@by_piece(*RECOMPUTE)
def _scratch(_: Setting, operations: Operations) -> Number:
    """The most that backward kernels of some operations need for themselves."""
    return largest(union_bytes(operation.scratch_backward) for operation in operations)


def _head_pieces(setting: Setting, ledger: StageLedger) -> Number:
    """A head multiplied in pieces: the next piece's gradient, and the sum that it goes into.

    Autograd sums them before it hands the gradient on, so that a step in backward does not
    free the sum before the last piece.
    """
    if not head_in_pieces(setting):
        return 0
    whole = sum_of(setting, ledger.head, made_bytes)
    return whole * (2 if setting.plan.optimizer_in_backward else 1)


def _head_input_gradient(setting: Setting, ledger: StageLedger) -> Number:
    """The gradient of what the head reads, made while the gradient of the logits is there.

    The weight's gradient still needs the latter. With sequence parallelism the sum over the
    ranks is scattered into a second tensor meanwhile (Megatron-Core
    ``LinearWithGradAccumulationAndAsyncCommunication``).
    """
    if not ledger.head or head_in_pieces(setting) or setting.runtime.loss == "linear":
        return 0
    width = setting.architecture.embedding_width or setting.architecture.hidden
    element = dtype(setting.format)
    shard = element.storage(setting.shard_tokens * width)
    scattered = where(setting.tp > 1, shard, 0) if setting.sp else 0
    return element.storage(setting.tokens * width) + scattered


def _embedding_gradient(setting: Setting, ledger: StageLedger) -> Number:
    """The dense gradient of the token embedding, before it joins a persistent buffer."""
    habits = setting.runtime
    if not ledger.embedding or habits.gradient_buffer != "persistent":
        return 0
    table = token_table(setting)
    return dtype(setting.precision.weights).storage(table.numel) if table.trains else 0


def live_losses(setting: Setting) -> Number:
    """GPipe makes every loss before the first backward; the others one at a time."""
    return setting.grad_acc if setting.plan.schedule == "gpipe" else 1
