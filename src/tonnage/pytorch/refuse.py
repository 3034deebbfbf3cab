"""What a dry run cannot do, refused by name."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.errors import NotModelledError
from tonnage.plan import Resolved, Setting
from tonnage.pytorch.build import FORMATS

RUNTIME = "transformers"
"""The profile of the code that is dry-run."""


def check_plan(resolved: Resolved) -> None:
    """Refuse a plan that the dry run would not follow.

    Raises:
        NotModelledError: it asks for something that is not run; the error names it.
    """
    plan = resolved.plan
    for field, allowed in (
        ("runtime", (RUNTIME,)),
        *((axis, (1,)) for axis in ("tp", "pp", "cp", "ep", "vpp")),
        ("zero", (0,)),
        ("optimizer", ("adamw",)),
        ("recompute", ("none", "full")),
        ("recompute_method", ("uniform",)),
        ("recompute_num_layers", (1,)),
        ("loss", ("eager",)),
        ("lora_rank", (None,)),
        ("freeze", ((),)),
        ("mtp", (0,)),
        *((flag, (False,)) for flag in ("compile", "cuda_graphs", "packing", "reference_model")),
        ("offload_optimizer", (0.0,)),
        *((flag, (False,)) for flag in ("offload_parameters", "offload_activations")),
    ):
        _only(field, getattr(plan, field), allowed)
    _check_formats(resolved.setting)


def _only(field: str, value: object, allowed: Iterable[object]) -> None:
    if value not in allowed:
        raise NotModelledError(
            field=field,
            value=value,
            problem="is not something that a dry run can do yet",
            accepted=" or ".join(str(each) for each in allowed),
            hint="tonnage estimate answers it from the ledger",
        )


def _check_formats(setting: Setting) -> None:
    """A recipe must be plain formats that PyTorch itself gives gradients and moments."""
    recipe = setting.precision
    plain = recipe.weights in FORMATS and not (
        recipe.master or recipe.accumulation or recipe.quantized
    )
    if not plain or {recipe.gradients, recipe.moments} != {recipe.weights}:
        raise NotModelledError(
            field="precision",
            value=recipe.name,
            problem="is not a recipe that a dry run can follow",
            accepted="fp32, tf32, bf16, bf16-amp or fp16-amp",
        )
