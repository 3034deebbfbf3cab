"""Communication buffers: what parallelism keeps beside the tensors it moves."""

from __future__ import annotations

from tonnage.algebra import Number, maximum, minimum, total, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.head import logits
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import Tensor, Weight
from tonnage.ledger.piece import sum_of
from tonnage.memory.schedule import live_per_chunk
from tonnage.plan import Plan, Setting
from tonnage.plan.schedule import SPLITS, per_chunk, sends


def communication_buffers(setting: Setting, ledger: StageLedger) -> Number:
    """Bytes of all communication buffers of a stage on one rank."""
    return (
        sequence_gathers(setting, ledger)
        + pipeline_receives(setting, ledger)
        + gradient_buckets(setting, ledger)
    )


def sequence_gathers(setting: Setting, ledger: StageLedger) -> Number:
    """Full-width buffers that sequence shards are gathered into, kept for good."""
    count = setting.runtime.gather_buffers
    if setting.runtime.head_gather_buffer and ledger.head:
        count += 1
    if not setting.sp or not count:
        return 0
    full = Tensor(
        name="gathered",
        elements=setting.tokens * setting.architecture.hidden,
        format=setting.format,
    )
    return where(setting.tp > 1, count * full.bytes, 0)


def pipeline_receives(setting: Setting, ledger: StageLedger) -> Number:
    """What is received from the neighbours, and what waits to be sent back a gradient for.

    As a ``pair``: one activation and one gradient. For ``each`` micro-batch
    (``torch.distributed.pipelining.stage``, ``_prepare_forward_infra``, ``fwd_cache``): buffers
    for every activation and gradient of a step, of which those in flight are kept as inputs
    anyway, and the outputs in flight.
    """
    stage = ledger.stage
    entry = layer_input(setting).bytes
    plan = setting.plan
    if setting.runtime.pipeline_buffers == "pair":
        # Interleaving receives into what the ends of the model leave free.
        hands = [sends(plan, stage.index, chunk) for chunk in range(len(stage.chunks))]
        ends = (not stage.embedding) + (not stage.head)
        both = sum(any(way) for way in zip(*hands, strict=True))
        return (both if plan.schedule in SPLITS else ends) * entry
    return entries_of_step(plan, stage.index, setting.grad_acc) * entry


def entries_of_step(plan: Plan, stage: int, microbatches: Number) -> Number:
    """Layer inputs that a stage has buffers for, where every micro-batch of a step has its own."""
    if plan.pp == 1:
        return 0
    live = live_per_chunk(plan, stage, microbatches)
    turns = per_chunk(plan, microbatches)
    hands = [sends(plan, stage, chunk) for chunk in range(len(live))]
    inside = [count for count, (_, back) in zip(live, hands, strict=True) if back]
    leaving = [count for count, (onward, _) in zip(live, hands, strict=True) if onward]
    idle = maximum(len(inside) * turns - total(inside), 0)
    return idle + len(leaving) * turns + total(leaving)


def deferred_logits(setting: Setting, ledger: StageLedger) -> Number:
    """Gradients of logits that wait for the head's weight gradient until the pipeline drains.

    One is used at once, the others of a step wait, as many as the limit allows (Megatron-Core
    ``LinearWithGradAccumulationAndAsyncCommunication``, ``--defer-embedding-wgrad-compute``).
    """
    limit = setting.plan.wgrad_deferral_limit
    if limit is None or not ledger.head:
        return 0
    others = setting.grad_acc - 1
    waiting = minimum(others, limit) if limit else others
    return waiting * logits(setting).bytes


def gradient_buckets(setting: Setting, ledger: StageLedger) -> Number:
    """Buckets that gradients are copied into to be reduced, beside the gradients themselves."""
    held: Number = 0
    if setting.runtime.bucket_copy and setting.zero == 0:
        pieces = ledger.pieces()
        held = total(count * sum_of(setting, piece, _bucket_bytes) for piece, count in pieces)
    fixed = setting.runtime.bucket_bytes if setting.zero else 0
    return where(setting.replicas > 1, held, 0) + fixed


def _bucket_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight as it is reduced."""
    recipe = setting.precision
    size = dtype(recipe.weights if recipe.accumulation else recipe.gradients)
    return size.storage(weight.numel) if weight.trains else 0
