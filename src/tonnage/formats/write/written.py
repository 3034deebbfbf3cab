"""A plan as a launch file of another tool, and what of the plan that file cannot say."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Written:
    """A launch file.

    Attributes:
        text: the file.
        beside: what the training script must be told beside it, in sentences.
    """

    text: str
    beside: tuple[str, ...] = ()


SCRIPT_FIELDS = (
    *("seq", "recompute", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("attention", "attention_version", "loss", "compile", "packing", "optimizer_step"),
    *("optimizer_in_backward", "lora_rank", "lora_targets", "lora_base", "lora_dropout"),
    *("lora_saved", "freeze", "weights_dtype", "master_dtype", "moments_dtype"),
)
"""Fields that a Hugging Face training script decides, whatever engine it runs on."""


def say(plan: Plan, fields: tuple[str, ...]) -> tuple[str, ...]:
    """What a script must be told: the fields whose value is not the default of a plan."""
    usual = Plan()
    told = []
    for field in fields:
        value = getattr(plan, field)
        if value is not None and value != getattr(usual, field):
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            told.append(f"{field.replace('_', ' ')} {text}")
    return tuple(f"the training script decides: {one}" for one in told)


def cannot_say(tool: str, field: str, value: object, accepted: str) -> InputError:
    """The error of a plan that a tool's file has no words for."""
    return InputError(
        field=field,
        value=value,
        problem=f"is nothing that a {tool} file can say",
        accepted=accepted,
    )
