"""What binds the best plan."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.estimation import Estimate
from tonnage.quantity import format_percent
from tonnage.search.answer import Binding, Neighbour

EXPOSED = (
    *("tensor_parallel", "context_parallel", "expert_parallel"),
    *("pipeline_sends", "data_parallel"),
)
"""Parts of a step that are communication which nothing hides."""

NAMEABLE = 0.005
"""What is less than this of a step binds nothing."""


def bindings(best: Estimate, beside: Sequence[Neighbour] = ()) -> tuple[Binding, ...]:
    """What keeps a plan from being faster, the largest share of its step first.

    Memory binds by what it makes a plan recompute, and by faster plans that do not fit.

    Args:
        best: the plan.
        beside: its neighbours.
    """
    found = [_memory(best, beside), _bubble(best), _communication(best)]
    plan = best.plan
    if plan.mbs == 1 and (plan.grad_acc or 1) <= 2 * plan.pp:
        found.append(
            Binding(
                name="batch",
                share=best.step.breakdown["pipeline_bubble"] / best.step.seconds,
                remark=f"{plan.grad_acc} micro-batches of one sequence are all that gbs "
                f"{plan.gbs} leaves each of {plan.dp} replicas",
            )
        )
    kept = [each for each in found if each.share >= NAMEABLE or each.name == "memory"]
    return tuple(sorted(kept, key=lambda each: (-each.share, each.name)))


def _memory(best: Estimate, beside: Sequence[Neighbour]) -> Binding:
    full = best.memory.peak_bytes.device / best.memory.capacity_bytes
    again = best.step.breakdown["recompute"] / best.step.seconds
    away = best.step.breakdown["offload"] / best.step.seconds
    lost, larger = _too_large(best, beside)
    return Binding(
        name="memory",
        share=max(again + away, lost),
        remark=f"{format_percent(full)} of the device is full"
        + (f"; {format_percent(again)} of the step recomputes" if again else "")
        + (f"; {format_percent(away)} waits for the host's memory" if away else "")
        + (f"; {larger} would save {format_percent(lost)}, and does not fit" if lost else ""),
    )


def _bubble(best: Estimate) -> Binding:
    share = best.step.breakdown["pipeline_bubble"] / best.step.seconds
    passes = (best.plan.grad_acc or 1) * best.plan.vpp
    return Binding(
        name="bubble",
        share=share,
        remark=f"{format_percent(share)} of the step: pp {best.plan.pp}, and {passes} passes of "
        "micro-batches to fill it",
    )


def _communication(best: Estimate) -> Binding:
    exposed = {part: best.step.breakdown[part] / best.step.seconds for part in EXPOSED}
    largest = max(EXPOSED, key=lambda part: exposed[part])
    share = sum(exposed.values())
    return Binding(
        name="communication",
        share=share,
        remark=f"{format_percent(share)} of the step is exposed, most of it "
        f"{largest.replace('_', ' ')} ({format_percent(exposed[largest])})",
    )


def _too_large(best: Estimate, beside: Sequence[Neighbour]) -> tuple[float, str]:
    """Of the neighbours that are faster and do not fit the fastest: its gain, and what it is."""
    faster = [
        (-each.seconds / best.step.seconds, f"{each.knob} {each.after}")
        for each in beside
        if each.seconds is not None and each.seconds < 0 and not each.fits
    ]
    return max(faster, default=(0.0, ""))
