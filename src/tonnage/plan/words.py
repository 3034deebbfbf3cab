"""A plan in words: as flags, which every verb reads back, and as an answer names its parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tonnage.plan.plan import Plan


def flag_words(fields: Mapping[str, object]) -> list[str]:
    """Fields of a plan as flags; what is None is left out.

    >>> flag_words({"tp": 2, "sp": False, "recompute_modules": ("mlp", "core_attn")})
    ['--tp', '2', '--no-sp', '--recompute-modules', 'mlp,core_attn']
    """
    words: list[str] = []
    for field, value in fields.items():
        if value is None:
            continue
        flag = field.replace("_", "-")
        if field == "habits":
            assert isinstance(value, tuple)
            for name, habit in value:
                words += ["--habit", f"{name}={habit}"]
        elif isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple):
            words += [f"--{flag}", ",".join(map(str, value))]
        else:
            words += [f"--{flag}", str(value)]
    return words


def changed_fields(plan: Plan, usual: Plan | None = None) -> dict[str, object]:
    """The fields that differ from another plan's, or from a blank one."""
    usual = usual or Plan()
    return {
        field.name: getattr(plan, field.name)
        for field in dataclasses.fields(plan)
        if getattr(plan, field.name) != getattr(usual, field.name)
    }


def recompute_text(plan: Plan) -> str:
    """What a plan recomputes, in a word or two.

    >>> recompute_text(Plan(recompute="full", recompute_method="uniform", recompute_num_layers=2))
    'uniform 2'
    """
    if plan.recompute == "full":
        return f"{plan.recompute_method} {plan.recompute_num_layers}"
    if plan.recompute == "selective":
        return "+".join(plan.recompute_modules)
    return plan.recompute
