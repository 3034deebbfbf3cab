"""How many micro-batches a pipeline schedule keeps alive on a stage."""

from __future__ import annotations

from tonnage.algebra import Number, maximum, minimum
from tonnage.plan import Plan


def live_per_chunk(plan: Plan, stage: int, microbatches: Number) -> list[Number]:
    """Micro-batches whose activations each chunk of a stage holds at once, at most.

    * GPipe: all of them (arXiv 1811.06965).
    * 1F1B: the stages that a micro-batch still has to pass, ``p - r``
      (PipeDream-Flush, arXiv 2006.09503).
    * Interleaved 1F1B: ``2(p - r - 1) + (v - 1)p + 1`` passes through a chunk, in rounds of
      p micro-batches through chunk 0, then chunk 1, and so on (arXiv 2104.04473, section
      2.2, and Megatron-Core's warm-up count).

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
    passes = minimum(2 * (p - stage - 1) + (v - 1) * p + 1, microbatches * v)

    def within(first: int) -> Number:
        return minimum(maximum(passes - first, 0), p)

    # Warm-up is shorter than two rounds over all chunks.
    return [within(chunk * p) + within((v + chunk) * p) for chunk in range(v)]
