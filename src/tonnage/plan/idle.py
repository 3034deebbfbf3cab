"""What a plan says that acts on nothing: a flag that is taken and changes nothing is a trap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from tonnage.arch import Architecture
from tonnage.errors import InputError
from tonnage.plan.plan import Plan

_BLANK: Final = Plan()

_ADAPTERS: Final = ("lora_targets", "lora_dropout")
_EXPERTS: Final = ("moe_dispatcher", "moe_capacity_factor", "moe_imbalance")


@dataclass(frozen=True, kw_only=True)
class Idle:
    """A field that differs from its default and acts on nothing: which, why, what would do."""

    field: str
    problem: str
    accepted: str


def check_idle(plan: Plan, architecture: Architecture) -> None:
    """Refuse what acts on nothing in this plan.

    Raises:
        InputError: a field differs from its default, and what it is about is not there.
    """
    for each in idle_fields(plan, architecture):
        value = getattr(plan, each.field)
        shown = ", ".join(value) if isinstance(value, tuple) else value
        raise InputError(
            field=each.field, value=shown, problem=each.problem, accepted=each.accepted
        )


def without_idle(plan: Plan, architecture: Architecture) -> Plan:
    """The plan with what acts on nothing put back to its default."""
    found = idle_fields(plan, architecture)
    changes: dict[str, Any] = {each.field: getattr(_BLANK, each.field) for each in found}
    return replace(plan, **changes)


def idle_fields(plan: Plan, architecture: Architecture) -> Iterator[Idle]:
    """Every field that acts on nothing."""
    recompute = f"and recompute is {plan.recompute}"
    groups = (
        (
            plan.lora_rank is None,
            _ADAPTERS,
            "is about adapters, and there are none",
            "with --lora-rank",
        ),
        (
            not architecture.is_moe,
            _EXPERTS,
            f"is about experts, and {architecture.name} has none",
            "leave it out",
        ),
        (
            plan.recompute != "selective",
            ("recompute_modules",),
            f"chooses among parts of a layer, {recompute}",
            "with --recompute selective",
        ),
        (
            plan.recompute != "full",
            ("recompute_method", "recompute_num_layers"),
            f"chooses among layers, {recompute}",
            "with --recompute full",
        ),
    )
    for idle, fields, problem, accepted in groups:
        for field in fields:
            if idle and getattr(plan, field) != getattr(_BLANK, field):
                yield Idle(field=field, problem=problem, accepted=accepted)
