"""The peak of one stage: a maximum over instants, and not a sum of categories."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

from tonnage.algebra import Number, ceil_div, largest, maximum, total, where
from tonnage.dtype import dtype
from tonnage.ledger import (
    Operations,
    StageLedger,
    Weight,
    head_in_pieces,
    logits_in_backward,
    logits_in_product,
    loss_bytes,
    stranded_logits,
)
from tonnage.ledger.embedding import token_table
from tonnage.ledger.mtp import predictors_keep, predictors_losses
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.piece import by_piece, largest_weight, sum_of
from tonnage.ledger.shared import shared_tensors
from tonnage.memory.activations import (
    Transients,
    backward_transients,
    held_by_frame,
    kept_by_chunk,
    retained,
    saved_by,
)
from tonnage.memory.buffers import communication_buffers, deferred_logits
from tonnage.memory.casts import cached_casts
from tonnage.memory.gathered import Gathered, gathered
from tonnage.memory.gradients import Appearing, appearing, made_bytes
from tonnage.memory.host import staged_activations
from tonnage.memory.schedule import live_per_chunk
from tonnage.memory.states import States, device_share, passing_gradients, sharded, states
from tonnage.memory.workspace import workspaces
from tonnage.plan import Setting

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
    * the step: no activations, but the optimizer's temporaries.
    """
    held = states(setting, ledger)
    buffers = communication_buffers(setting, ledger) + deferred_logits(setting, ledger)
    fixed = workspaces(setting, ledger)
    there = _There(
        whole=gathered(setting, ledger),
        alive=live_activations(setting, ledger),
        grown=_gradients(setting, ledger, held),
        beside=backward_transients(setting, ledger),
    )
    moments = (*_forward(setting, ledger, there), *_backward(setting, ledger, there))
    step = _Moment(
        when="optimizer step",
        gradients=held.gradients - passing_gradients(setting, ledger),
        temporaries=step_temporaries(setting, ledger, held),
        stepped=True,
    )
    everything = _with_side_pools((*moments, step))
    return StageMemory(
        stage=ledger.stage.index,
        instants=tuple(_instant(setting, held, moment, buffers, fixed) for moment in everything),
    )


@dataclass(frozen=True, kw_only=True)
class _Moment:
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


def _with_side_pools(moments: tuple[_Moment, ...]) -> tuple[_Moment, ...]:
    """Gathers and reductions run on streams of their own.

    The allocator has a pool for each stream, and what one of them has freed serves no other: at
    every instant the reserve holds as much for them as they ever need.
    """
    most = largest(moment.whole for moment in moments)
    return tuple(
        dataclasses.replace(moment, stranded=moment.stranded + most - moment.whole)
        for moment in moments
    )


def _instant(
    setting: Setting, held: States, moment: _Moment, buffers: Number, fixed: Number
) -> Instant:
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


@dataclass(frozen=True, kw_only=True)
class _There:
    """What several moments of a stage have in common; bytes.

    Attributes:
        whole: parameters gathered from their shards.
        alive: activations of all micro-batches in flight.
        grown: gradients, by when.
        beside: what lives while the layers run.
    """

    whole: Gathered
    alive: Number
    grown: Appearing
    beside: Transients


def _forward(setting: Setting, ledger: StageLedger, there: _There) -> tuple[_Moment, ...]:
    """The moments up to the loss and the head's backward, every live micro-batch there."""
    whole, alive, grown = there.whole, there.alive, there.grown
    loss = _live_losses(setting) * loss_bytes(setting) if ledger.head else 0
    further = predictors_losses(setting, ledger.predictors)
    return (
        _Moment(
            when="forward",
            gradients=grown.early,
            activations=alive,
            whole=whole.layers,
            temporaries=there.beside.forward,
        ),
        _Moment(
            when="loss",
            gradients=grown.early,
            activations=alive + held_by_frame(setting, ledger.head),
            loss=loss + further,
            whole=whole.loss,
            temporaries=cached_casts(setting, ledger),
            stranded=stranded_logits(setting) if ledger.head else 0,
        ),
        _Moment(
            when="head backward",
            gradients=grown.top,
            activations=alive,
            loss=logits_in_backward(setting) + further if ledger.head else 0,
            whole=whole.loss,
            temporaries=_scratch(setting, ledger.head) + _head_pieces(setting, ledger),
        ),
        _Moment(
            when="head product",
            gradients=grown.top,
            activations=alive,
            loss=logits_in_product(setting) + further if ledger.head else 0,
            whole=whole.loss,
            temporaries=_scratch(setting, ledger.head) + _head_input_gradient(setting, ledger),
        ),
    )


def _backward(setting: Setting, ledger: StageLedger, there: _There) -> tuple[_Moment, ...]:
    """The moments of a micro-batch's way back: its last layer, its first, the embedding."""
    whole, alive, grown, beside = there.whole, there.alive, there.grown, there.beside
    return (
        _Moment(
            when="first backward",
            gradients=grown.top,
            activations=alive - saved_by(setting, ledger.head),
            whole=whole.layers,
            temporaries=beside.backward,
        ),
        _Moment(
            when="last backward",
            gradients=grown.bottom,
            activations=beside.last + retained(setting, ledger),
            whole=whole.layers,
        ),
        _Moment(
            when="embedding backward",
            gradients=grown.end,
            activations=maximum(alive - _one_microbatch(setting, ledger), 0),
            whole=whole.end,
            temporaries=_embedding_gradient(setting, ledger),
        ),
    )


def _gradients(setting: Setting, ledger: StageLedger, held: States) -> Appearing:
    """A persistent buffer is always there; else gradients appear one by one.

    What is added to the buffer at the end of a backward pass is there with the last layers only.
    """
    if setting.runtime.gradient_buffer == "in-backward":
        return appearing(setting, ledger)
    whole = held.gradients
    resting = whole - passing_gradients(setting, ledger)
    return Appearing(early=resting, top=resting, bottom=whole, end=whole)


def live_activations(setting: Setting, ledger: StageLedger) -> Number:
    """Activations of all micro-batches that are alive at once on the stage."""
    live = live_per_chunk(setting.plan, ledger.stage.index, setting.grad_acc)
    inside = staged_activations(setting, ledger, live_inside(setting, ledger))
    before = saved_by(setting, ledger.embedding) + union_bytes(shared_tensors(setting))
    after = saved_by(setting, ledger.head) + predictors_keep(setting, ledger.predictors)
    return inside + live[0] * before + live[-1] * after


def live_inside(setting: Setting, ledger: StageLedger) -> Number:
    """What the layers of a stage keep of all micro-batches that are alive at once."""
    live = live_per_chunk(setting.plan, ledger.stage.index, setting.grad_acc)
    return total(
        count * kept_by_chunk(setting, ledger, chunk, index)
        for index, (count, chunk) in enumerate(zip(live, ledger.stage.chunks, strict=True))
    )


def per_layer(setting: Setting, ledger: StageLedger) -> list[Number]:
    """Layers times live micro-batches, by chunk."""
    live = live_per_chunk(setting.plan, ledger.stage.index, setting.grad_acc)
    chunks = ledger.stage.chunks
    return [count * len(chunk) for count, chunk in zip(live, chunks, strict=True)]


@by_piece()
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


def _one_microbatch(setting: Setting, ledger: StageLedger) -> Number:
    """What one micro-batch keeps on the first chunk and the embedding."""
    return saved_by(setting, ledger.embedding) + kept_by_chunk(
        setting, ledger, ledger.stage.chunks[0]
    )


def _embedding_gradient(setting: Setting, ledger: StageLedger) -> Number:
    """The dense gradient of the token embedding, before it joins a persistent buffer."""
    habits = setting.runtime
    if not ledger.embedding or habits.gradient_buffer != "persistent":
        return 0
    table = token_table(setting)
    return dtype(setting.precision.weights).storage(table.numel) if table.trains else 0


def _live_losses(setting: Setting) -> Number:
    """GPipe makes every loss before the first backward; the others one at a time."""
    return setting.grad_acc if setting.plan.schedule == "gpipe" else 1


def step_temporaries(setting: Setting, ledger: StageLedger, held: States) -> Number:
    """What the optimizer step needs beside the states.

    A foreach step makes one list of temporaries as large as what it updates (PyTorch's
    multi-tensor AdamW: the square roots of the second moments).
    """
    recipe = setting.precision
    temporaries: Number = 0
    if setting.plan.offload_parameters:
        return 0
    if setting.plan.optimizer_in_backward:
        pieces = ledger.pieces()
        return largest(largest_weight(setting, piece, made_bytes) for piece, _ in pieces)
    if setting.runtime.optimizer_step == "foreach":
        lists = setting.runtime.step_lists
        temporaries = lists * sharded(setting, ledger.pieces(), _stepped_bytes, setting.zero >= 1)
    if recipe.master and narrower(recipe.gradients, recipe.master) and not recipe.accumulation:
        # Narrow gradients are copied to the master's format for the step.
        copied = sharded(setting, ledger.pieces(), _widened_bytes, setting.zero >= 1)
        temporaries = temporaries + copied
    temporaries = device_share(setting, temporaries)
    if setting.runtime.step_copies and setting.zero == 1:
        # The shard is copied, too, before it is gathered.
        copies = setting.runtime.step_copies * held.parameters
        copies = copies + ceil_div(held.parameters, setting.shard)
        temporaries = temporaries + where(setting.replicas > 1, copies, 0)
    return temporaries


def narrower(one: str, other: str) -> bool:
    """Whether a number format has fewer bits than another."""
    return dtype(one).bytes < dtype(other).bytes


def _widened_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight in the master's format."""
    return weight.numel * dtype(setting.precision.master or "fp32").bytes if weight.trains else 0


def _stepped_bytes(setting: Setting, weight: Weight) -> Number:
    """One temporary of the format that the optimizer steps a weight in."""
    recipe = setting.precision
    each = weight.format or recipe.master or recipe.weights
    return dtype(each).storage(weight.numel) if weight.trains else 0
