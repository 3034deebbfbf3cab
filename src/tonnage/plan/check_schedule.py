"""What a pipeline schedule asks of the degrees and of the number of micro-batches."""

from __future__ import annotations

from tonnage.algebra import ceil_div
from tonnage.errors import InputError, NotModelledError
from tonnage.plan.plan import Plan
from tonnage.plan.schedule import CHUNKS, SPLITS, group, least, streams


def check_schedule(plan: Plan) -> None:
    """Check a schedule against pp and vpp.

    Raises:
        InputError: they contradict each other.
        NotModelledError: it is not accounted for together with another choice.
    """
    if plan.vpp > 1 and plan.pp == 1:
        raise InputError(
            field="vpp",
            value=plan.vpp,
            problem="needs pipeline stages, and pp is 1",
            accepted="1, or pp of 2 and more",
        )
    _check_chunks(plan)
    if plan.schedule == "dualpipe" and plan.pp % 2:
        raise InputError(
            field="pp",
            value=plan.pp,
            problem="cannot be mirrored: dualpipe pairs a stage with another",
            accepted="an even number",
        )
    if plan.schedule in SPLITS and plan.optimizer_in_backward:
        raise NotModelledError(
            field="optimizer_in_backward",
            value=True,
            problem=f"is not modelled with {plan.schedule}, whose weights' gradients come late",
            accepted="false",
        )
    if plan.microbatch_group is not None and plan.schedule != "interleaved":
        raise InputError(
            field="microbatch_group",
            value=plan.microbatch_group,
            problem=f"means nothing under {plan.schedule}",
            accepted="with --schedule interleaved and vpp of 2 and more",
        )


def _check_chunks(plan: Plan) -> None:
    """A schedule has one chunk a stage, two, or as many as one likes."""
    wanted = CHUNKS.get(plan.schedule or "", 1)
    if wanted is None:
        if plan.vpp == 1:
            raise InputError(
                field="schedule",
                value=plan.schedule,
                problem="contradicts vpp 1",
                accepted="interleaved with vpp of 2 and more, else 1f1b or gpipe",
            )
    elif plan.vpp != wanted:
        raise InputError(
            field="schedule",
            value=plan.schedule,
            problem=f"contradicts vpp {plan.vpp}",
            accepted=f"vpp {wanted}" + (", or interleaved" if plan.vpp > 1 else ""),
            hint=f"--vpp {wanted}",
        )


def check_microbatches(plan: Plan, microbatches: int) -> None:
    """Check the number of micro-batches of a step.

    Raises:
        InputError: the schedule has no order for so many.
    """
    if plan.schedule == "interleaved":
        _check_rounds(plan, microbatches)
    if microbatches < least(plan) or microbatches % streams(plan):
        raise InputError(
            field="grad_acc",
            value=microbatches,
            problem=f"is not what {plan.schedule} over {plan.pp} stages needs",
            accepted=f"{least(plan)} or more" + (", an even number" if streams(plan) == 2 else ""),
        )


def _check_rounds(plan: Plan, microbatches: int) -> None:
    """Megatron-Core's conditions: a group of pp at least, and no shorter one left over."""
    size = group(plan)
    if plan.microbatch_group is not None and not plan.pp <= size <= microbatches:
        raise InputError(
            field="microbatch_group",
            value=size,
            problem=f"is less than pp {plan.pp} or more than the {microbatches} micro-batches",
            accepted=f"{plan.pp} to {microbatches}",
        )
    if microbatches < plan.pp or 0 < microbatches % size < plan.pp:
        over = plan.microbatch_group is None
        raise InputError(
            field="grad_acc",
            value=microbatches,
            problem=f"is no multiple of pp {plan.pp}, which interleaving asks for"
            if over
            else f"leaves {microbatches % size} of a group of {size}, fewer than pp {plan.pp}",
            accepted=nearest_multiples(microbatches, size),
        )


def nearest_multiples(number: int, of: int) -> str:
    """The multiples on both sides of a number, as an error lists them."""
    below, above = number // of * of, ceil_div(number, of) * of
    return f"{below} or {above} (the nearest)" if below else f"{above} (the nearest)"
