"""The peak of one stage: a maximum over instants, and not a sum of categories."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, largest, total, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, loss_bytes
from tonnage.ledger.embedding import token_table
from tonnage.ledger.operation import union_bytes
from tonnage.ledger.shared import shared_tensors
from tonnage.memory.activations import kept_by_chunk, transients
from tonnage.memory.buffers import communication_buffers
from tonnage.memory.schedule import live_per_chunk
from tonnage.memory.states import States, passing_gradients, sharded, states
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
    """One candidate for the peak: when, and the bytes of each category then."""

    when: str
    categories: dict[str, Number]

    @property
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
    def peak(self) -> Instant:
        """The instant of the peak (of one plan, not of a column)."""
        return max(self.instants, key=lambda instant: int(instant.allocated))


def stage_memory(setting: Setting, ledger: StageLedger) -> StageMemory:
    """Bytes of one stage at each instant that can be its peak.

    * forward: every live micro-batch, and what the last layer needs on its way;
    * the loss: on the last stage also the logits and their copies;
    * the first backward: the same micro-batches, what recomputation brings back, and the
      gradients of activations;
    * the last backward: all gradients, and one layer (or checkpointed group);
    * the step: no activations, but the optimizer's temporaries.
    """
    held = states(setting, ledger)
    buffers = communication_buffers(setting, ledger)
    alive = _live_activations(setting, ledger)
    beside = transients(setting, ledger)
    resting = held.gradients - passing_gradients(setting, ledger)
    early = _early_gradients(setting, resting)
    fixed = workspaces(setting, ledger)

    def instant(
        when: str,
        gradients: Number,
        activations: Number,
        loss: Number = 0,
        temporaries: Number = 0,
        stepped: bool = False,
    ) -> Instant:
        moments = held.optimizer_states if stepped or setting.plan.iteration == "steady" else 0
        sizes = (
            held.parameters,
            held.master_weights,
            gradients,
            moments,
            activations,
            loss,
            buffers,
            temporaries + fixed,
        )
        return Instant(when=when, categories=dict(zip(CATEGORIES, sizes, strict=True)))

    loss = _live_losses(setting) * loss_bytes(setting) if ledger.stage.head else 0
    return StageMemory(
        stage=ledger.stage.index,
        instants=(
            instant("forward", early, alive, temporaries=beside.forward),
            instant("loss", early, alive, loss),
            instant("first backward", early, alive, temporaries=beside.backward),
            instant("last backward", held.gradients, beside.last),
            instant(
                "embedding backward",
                held.gradients,
                alive - _one_microbatch(setting, ledger),
                temporaries=_embedding_gradient(setting, ledger),
            ),
            instant(
                "optimizer step",
                resting,
                0,
                temporaries=step_temporaries(setting, ledger, held),
                stepped=True,
            ),
        ),
    )


def _live_activations(setting: Setting, ledger: StageLedger) -> Number:
    """Activations of all micro-batches that are alive at once on the stage."""
    live = live_per_chunk(setting.plan, ledger.stage.index, setting.grad_acc)
    chunks = ledger.stage.chunks
    inside = total(
        count * kept_by_chunk(setting, ledger, chunk)
        for count, chunk in zip(live, chunks, strict=True)
    )
    before = union_bytes(tensor for op in ledger.embedding for tensor in op.saves)
    after = union_bytes(tensor for op in ledger.head for tensor in op.saves)
    shared = union_bytes(shared_tensors(setting))
    return inside + live[0] * (before + shared) + live[-1] * after


def _one_microbatch(setting: Setting, ledger: StageLedger) -> Number:
    """What one micro-batch keeps on the first chunk and the embedding."""
    before = union_bytes(tensor for op in ledger.embedding for tensor in op.saves)
    return before + kept_by_chunk(setting, ledger, ledger.stage.chunks[0])


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


def _early_gradients(setting: Setting, gradients: Number) -> Number:
    """Gradients while the first micro-batches are alive.

    A persistent buffer is always there. Gradients that appear in backward are there once
    a micro-batch has been through it, which needs a second one to be noticed.
    """
    if setting.runtime.gradient_buffer == "persistent":
        return gradients
    return where(setting.grad_acc > 1, gradients, 0)


def step_temporaries(setting: Setting, ledger: StageLedger, held: States) -> Number:
    """What the optimizer step needs beside the states.

    A foreach step makes one list of temporaries as large as what it updates (PyTorch's
    multi-tensor AdamW: the square roots of the second moments).
    """
    recipe = setting.precision
    temporaries: Number = 0
    if setting.runtime.optimizer_step == "foreach":
        each = dtype(recipe.master or recipe.weights).bytes
        temporaries = sharded(
            setting,
            ledger.weights(),
            lambda w: w.numel * each if w.trains else 0,
            setting.zero >= 1,
        )
    if recipe.master and recipe.gradients != recipe.master and not recipe.accumulation:
        # Narrow gradients are copied to the master's format for the step.
        temporaries = temporaries + sharded(
            setting,
            ledger.weights(),
            lambda w: w.numel * dtype(recipe.master or "fp32").bytes if w.trains else 0,
            setting.zero >= 1,
        )
    if setting.runtime.step_copies and setting.zero == 1:
        # The shard is copied, too, before it is gathered.
        copies = setting.runtime.step_copies * held.parameters
        copies = copies + ceil_div(held.parameters, setting.shard)
        temporaries = temporaries + where(setting.replicas > 1, copies, 0)
    return temporaries
