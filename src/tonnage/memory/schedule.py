"""How many micro-batches a pipeline schedule keeps alive on a stage."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, maximum, minimum
from tonnage.plan import Plan


def live_per_chunk(plan: Plan, stage: int, microbatches: Number) -> list[Number]:
    """Micro-batches whose activations each chunk of a stage holds at once, at most.

    * GPipe: all of them (arXiv 1811.06965).
    * 1F1B: the stages that a micro-batch still has to pass, ``p - r``
      (PipeDream-Flush, arXiv 2006.09503).
    * Interleaved 1F1B: ``2(p - r - 1) + (v - 1)g + 1`` passes through a chunk, in rounds of
      g micro-batches (p, or the plan's group) through chunk 0, then chunk 1, and so on
      (arXiv 2104.04473, section 2.2, and Megatron-Core's warm-up count).

    Args:
        plan: schedule, pp and vpp.
        stage: position in the pipeline, 0 first.
        microbatches: micro-batches of a step.
    """
    p, v = plan.pp, plan.vpp
    if plan.schedule == "gpipe":
        return [microbatches]
    if plan.schedule != "interleaved":
        return [minimum(p - stage, microbatches)]
    group = plan.microbatch_group or p
    passes = minimum(2 * (p - stage - 1) + (v - 1) * group + 1, microbatches * v)

    def within(first: int) -> Number:
        return minimum(maximum(passes - first, 0), group)

    # Warm-up is shorter than two rounds over all chunks.
    return [within(chunk * group) + within((v + chunk) * group) for chunk in range(v)]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One micro-batch through one chunk, forward or back."""

    forward: bool
    chunk: int
    microbatch: int


SETTLED = 7
"""Micro-batches beyond the pipeline's depth after which a step repeats itself."""


def passes(plan: Plan, stage: int, microbatches: int) -> tuple[Pass, ...]:
    """The passes of a step on one stage, in order.

    Micro-batches past those that repeat the same sequence are left out.

    Args:
        plan: schedule, pp and vpp.
        stage: position in the pipeline, 0 first.
        microbatches: micro-batches of a step.
    """
    p, v = plan.pp, plan.vpp
    if plan.schedule == "gpipe":
        count, warm_up = microbatches, microbatches
    elif plan.schedule == "interleaved":
        count = min(microbatches, 3 * p)
        warm_up = min(2 * (p - stage - 1) + (v - 1) * p + 1, count * v)
    else:
        count = min(microbatches, p + SETTLED)
        warm_up = min(p - stage, count)
    total = count * v
    found: list[Pass] = []
    for index in range(total + warm_up - 1):
        if index < total:
            found.append(_pass(index, p, v, forward=True))
        if index >= warm_up - 1:
            found.append(_pass(index - warm_up + 1, p, v, forward=False))
    return tuple(found)


def _pass(index: int, p: int, v: int, *, forward: bool) -> Pass:
    """Rounds of p micro-batches through each chunk in turn; back in the opposite order."""
    if v == 1:
        return Pass(forward=forward, chunk=0, microbatch=index)
    round_number, within = divmod(index, p * v)
    chunk = within // p
    return Pass(
        forward=forward,
        chunk=chunk if forward else v - 1 - chunk,
        microbatch=round_number * p + within % p,
    )
