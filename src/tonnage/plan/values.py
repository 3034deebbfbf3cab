"""What can be a value of a plan's field at all, whatever model and cluster it meets."""

from __future__ import annotations

import functools
import typing
from typing import Any

from tonnage.errors import InputError
from tonnage.plan.plan import Plan
from tonnage.runtime import LossRule

LARGEST = 10**9
"""No degree, batch or length is past this: a typing error, and a bound on the arithmetic."""

_COUNTS = (
    "tp",
    "pp",
    "vpp",
    "microbatch_group",
    "cp",
    "ep",
    "etp",
    "dp",
    "hsdp_shard",
    "microbatch_group",
    "document",
    "mbs",
    "gbs",
    "grad_acc",
    "seq",
    "first_stage_layers",
    "last_stage_layers",
    "lora_rank",
)
_WORDS = (
    "schedule",
    "optimizer_step",
    "recompute",
    "recompute_method",
    "attention",
    "cp_comm",
    "moe_dispatcher",
    "lora_base",
    "iteration",
    "loss",
)
_REQUIRED = ("tp", "pp", "vpp", "cp", "ep", "mbs", "runtime", "optimizer")
_TEXTS = (
    "runtime",
    "optimizer",
    "precision",
    "loss",
    "weights_dtype",
    "gradients_dtype",
    "reduction_dtype",
    "master_dtype",
    "moments_dtype",
)
_WORD_LISTS = ("recompute_modules", "lora_targets", "lora_saved", "freeze")


def positive(field: str, value: object) -> int:
    """The value, if it is a whole number that a degree, a batch or a length can be."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(
            field=field,
            value=value,
            problem="is not a positive whole number",
            accepted=f"1 to {LARGEST}",
        )
    return value


def check_values(plan: Plan) -> None:
    """Refuse what cannot be a value of its field.

    Raises:
        InputError: a value has the wrong type, or is out of its range.
    """
    for name in _COUNTS:
        if getattr(plan, name) is not None or name in _REQUIRED:
            positive(name, getattr(plan, name))
    for name in ("recompute_num_layers", "mtp", "wgrad_deferral_limit"):
        if getattr(plan, name) not in (0, None):
            positive(name, getattr(plan, name))
    _check_texts(plan)
    _check_words(plan)
    _check_flags(plan)
    _check_ranges(plan)


def _check_texts(plan: Plan) -> None:
    """Names are text, lists are lists, and a habit is a name and a value."""
    for name in _TEXTS:
        value = getattr(plan, name)
        if not isinstance(value, str) and not (value is None and name not in _REQUIRED):
            raise InputError(field=name, value=value, problem="is not text", accepted="a name")
    for name in (*_WORD_LISTS, "habits"):
        value = getattr(plan, name)
        if not isinstance(value, tuple | list):
            raise InputError(field=name, value=value, problem="is not a list", accepted="a list")
    for habit in plan.habits:
        pair = isinstance(habit, tuple | list) and len(habit) == 2
        if not pair or not all(isinstance(part, str) for part in habit):
            raise InputError(
                field="habits", value=habit, problem="is not a habit", accepted="name and value"
            )
    names = [name for name, _ in plan.habits]
    for name in set(names):
        if names.count(name) > 1:
            raise InputError(
                field="habits", value=name, problem="is given twice", accepted="one value"
            )


@functools.cache
def _hints() -> dict[str, Any]:
    """The types of a plan's fields; a loss is one that a runtime can have."""
    return {**typing.get_type_hints(Plan), "loss": LossRule | None}


def _check_words(plan: Plan) -> None:
    hints = _hints()
    for name in (*_WORDS, *_WORD_LISTS):
        value = getattr(plan, name)
        known = choices(hints[name])
        for word in value if name in _WORD_LISTS else (value,):
            if word is not None and word not in known:
                raise InputError(
                    field=name, value=word, problem="is not known", accepted=", ".join(known)
                )


def _check_flags(plan: Plan) -> None:
    """Yes or no is True or False; a ZeRO stage is a whole number."""
    for name, hint in _hints().items():
        if hint not in (bool, bool | None):
            continue
        value = getattr(plan, name)
        if not isinstance(value, bool | None):
            raise InputError(
                field=name, value=value, problem="is neither yes nor no", accepted="true or false"
            )
    if plan.zero is not None and (type(plan.zero) is not int or not 0 <= plan.zero <= 3):
        raise InputError(
            field="zero", value=plan.zero, problem="is not a ZeRO stage", accepted="0, 1, 2 or 3"
        )


def choices(hint: object) -> tuple[str, ...]:
    """Every string that a type made of Literals, unions and tuples allows."""
    if isinstance(hint, str):
        return (hint,)
    return tuple(choice for part in typing.get_args(hint) for choice in choices(part))


_RANGES = {
    "moe_capacity_factor": (0.01, 1000.0),
    "moe_imbalance": (1.0, 1000.0),
    "lora_dropout": (0.0, 1.0),
    "offload_optimizer": (0.0, 1.0),
}
"""The least and the most that a field without a unit can be."""


def _check_ranges(plan: Plan) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(plan, name)
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and least <= value <= most):
            raise InputError(
                field=name,
                value=value,
                problem="is out of range",
                accepted=f"{least:g} to {most:g}",
            )
