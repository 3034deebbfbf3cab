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
    parts, step = best.step.breakdown, best.step.seconds
    plan, memory = best.plan, best.memory
    full = memory.peak_bytes.device / memory.capacity_bytes
    again = parts["recompute"] / step
    lost, larger = _too_large(best, beside)
    exposed = {part: parts[part] / step for part in EXPOSED}
    largest = max(EXPOSED, key=lambda part: exposed[part])
    bubble = parts["pipeline_bubble"] / step
    micro = (plan.grad_acc or 1) * plan.vpp
    found = [
        Binding(
            name="memory",
            share=max(again, lost),
            remark=f"{format_percent(full)} of the device is full"
            + (f"; {format_percent(again)} of the step recomputes" if again else "")
            + (f"; {larger} would save {format_percent(lost)}, and does not fit" if lost else ""),
        ),
        Binding(
            name="bubble",
            share=bubble,
            remark=f"{format_percent(bubble)} of the step: pp {plan.pp}, and {micro} passes of "
            "micro-batches to fill it",
        ),
        Binding(
            name="communication",
            share=sum(exposed.values()),
            remark=f"{format_percent(sum(exposed.values()))} of the step is exposed, most of it "
            f"{largest.replace('_', ' ')} ({format_percent(exposed[largest])})",
        ),
    ]
    if plan.mbs == 1 and (plan.grad_acc or 1) <= 2 * plan.pp:
        found.append(
            Binding(
                name="batch",
                share=bubble,
                remark=f"{plan.grad_acc} micro-batches of one sequence are all that gbs "
                f"{plan.gbs} leaves each of {plan.dp} replicas",
            )
        )
    kept = [each for each in found if each.share >= NAMEABLE or each.name == "memory"]
    return tuple(sorted(kept, key=lambda each: (-each.share, each.name)))


def _too_large(best: Estimate, beside: Sequence[Neighbour]) -> tuple[float, str]:
    """Of the neighbours that are faster and do not fit the fastest: its gain, and what it is."""
    faster = [
        (-each.seconds / best.step.seconds, f"{each.knob} {each.after}")
        for each in beside
        if each.seconds is not None and each.seconds < 0 and not each.fits
    ]
    return max(faster, default=(0.0, ""))
