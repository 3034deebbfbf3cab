"""The conventional choice, where it is as good as an estimate can tell.

The best plan is the best to the last digit, so that more memory or a freer knob never makes it
worse. What is nearly as good and what people usually launch is told beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.plan import Plan
from tonnage.search.answer import Neighbour

NEAR: Final = 0.01
"""Step times that differ by less of themselves are told apart by no estimate."""

_DEGREES = ("tp", "pp", "vpp", "cp", "ep")


def plainness(plan: Plan) -> int:
    """How many knobs a plan sets that are usually left alone: the fewer, the plainer."""
    blank = Plan()
    usual = (
        *("first_stage_layers", "last_stage_layers", "account_for_embedding"),
        *("account_for_loss", "hsdp_shard", "offload_parameters", "vpp", "cp", "recompute"),
    )
    odd = [name for name in usual if getattr(plan, name) != getattr(blank, name)]
    return len(odd) + int(plan.tp > 1 and plan.sp is False)


def plainer(beside: Sequence[Neighbour], seconds: float) -> tuple[Neighbour, ...]:
    """Neighbours that fit, take hardly longer, and set a knob less or lower.

    Args:
        beside: neighbours of the best plan.
        seconds: of its step.
    """
    found = []
    for each in beside:
        usual = (each.knob, each.after) in (("sp", "on"), ("recompute", "none"))
        lower = each.knob in _DEGREES and int(each.after) < int(each.before)
        near = each.seconds is not None and each.seconds < NEAR * seconds
        if each.fits and near and (usual or lower):
            found.append(each)
    return tuple(found)
