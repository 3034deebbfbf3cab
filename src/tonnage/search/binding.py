"""What binds the best plan."""

from __future__ import annotations

from tonnage.estimation import Estimate
from tonnage.quantity import format_percent
from tonnage.search.answer import Binding

EXPOSED = (
    *("tensor_parallel", "context_parallel", "expert_parallel"),
    *("pipeline_sends", "data_parallel"),
)
"""Parts of a step that are communication which nothing hides."""

NAMEABLE = 0.005
"""What is less than this of a step binds nothing."""


def bindings(best: Estimate) -> tuple[Binding, ...]:
    """What keeps a plan from being faster, the largest share of its step first.

    Memory binds by what it makes a plan recompute, and by how full the device is.
    """
    parts, step = best.step.breakdown, best.step.seconds
    plan, memory = best.plan, best.memory
    full = memory.peak_bytes.device / memory.capacity_bytes
    again = parts["recompute"] / step
    exposed = {part: parts[part] / step for part in EXPOSED}
    largest = max(EXPOSED, key=lambda part: exposed[part])
    bubble = parts["pipeline_bubble"] / step
    micro = (plan.grad_acc or 1) * plan.vpp
    found = [
        Binding(
            name="memory",
            share=again,
            remark=f"{format_percent(full)} of the device is full"
            + (f", and {format_percent(again)} of the step recomputes" if again else ""),
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
