"""Precision recipes: which number format each role of a training step is stored in.

A recipe is a row of the table below. `tonnage napkin` and the ledger read the same
rows, so bytes per parameter have one source.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.cluster import Device
from tonnage.dtype import dtype
from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The number format of each role (names of `tonnage.dtype`).

    Attributes:
        name: what ``--precision`` calls it.
        summary: one line for a person.
        weights: storage of the parameters.
        compute: operands of the matrix products.
        activations: the residual stream and what autograd saves of it.
        gradients: the gradient that lives from backward to the optimizer step.
        reduction: gradients on the wire.
        moments: the optimizer's moments.
        accumulation: a second gradient buffer that micro-batches are summed into
            (nanotron, DeepSpeed with fp32 accumulation), or None.
        master: a full-precision copy of the weights in the optimizer, or None.
        quantized: block format of the matrix products' operands where it is narrower
            than ``compute`` (FP8 delayed or current scaling, MXFP8, NVFP4), or None.
        dynamic: operands are quantised anew for each product and only the wide ones are kept
            (torchao), instead of narrow ones that are cached (Transformer Engine).
    """

    name: str
    summary: str
    weights: str
    compute: str
    activations: str
    gradients: str
    reduction: str
    moments: str
    accumulation: str | None = None
    master: str | None = None
    quantized: str | None = None
    dynamic: bool = False

    @property
    def matmul(self) -> str:
        """The format whose peak FLOP/s bounds the matrix products."""
        return self.quantized or self.compute


def _recipe(
    name: str, summary: str, roles: str, *, dynamic: bool = False, **more: str | None
) -> Precision:
    weights, compute, activations, gradients, reduction, moments = roles.split()
    return Precision(
        name=name,
        summary=summary,
        weights=weights,
        compute=compute,
        activations=activations,
        gradients=gradients,
        reduction=reduction,
        moments=moments,
        dynamic=dynamic,
        **more,
    )


# Columns of the quoted part: weights, compute, activations, gradients, reduction, moments.
_RECIPES = (
    _recipe("fp32", "everything in fp32", "fp32 fp32 fp32 fp32 fp32 fp32"),
    _recipe("tf32", "fp32 storage, TF32 tensor cores", "fp32 tf32 fp32 fp32 fp32 fp32"),
    _recipe(
        "fp16-mixed",
        "fp16 weights and gradients, fp32 master (Micikevicius et al., arXiv 1710.03740)",
        "fp16 fp16 fp16 fp16 fp16 fp32",
        master="fp32",
    ),
    _recipe(
        "fp16-mixed-fp32-grads",
        "fp16 weights, fp32 gradients and master",
        "fp16 fp16 fp16 fp32 fp32 fp32",
        master="fp32",
    ),
    _recipe(
        "fp16-no-master",
        "fp16 weights and gradients, fp32 moments, no master",
        "fp16 fp16 fp16 fp16 fp16 fp32",
    ),
    _recipe(
        "fp16-amp", "fp32 weights and gradients, fp16 autocast", "fp32 fp16 fp16 fp32 fp32 fp32"
    ),
    _recipe(
        "bf16-mixed",
        "bf16 weights, fp32 gradients and master (Megatron's --bf16)",
        "bf16 bf16 bf16 fp32 fp32 fp32",
        master="fp32",
    ),
    _recipe(
        "bf16-mixed-bf16-grads",
        "bf16 weights and gradients, fp32 master",
        "bf16 bf16 bf16 bf16 bf16 fp32",
        master="fp32",
    ),
    _recipe(
        "bf16-mixed-accumulate",
        "bf16 weights and gradients, fp32 accumulation buffer and master (nanotron)",
        "bf16 bf16 bf16 bf16 fp32 fp32",
        accumulation="fp32",
        master="fp32",
    ),
    _recipe(
        "bf16-no-master",
        "bf16 weights and gradients, fp32 moments, no master",
        "bf16 bf16 bf16 bf16 bf16 fp32",
    ),
    _recipe(
        "bf16-no-master-fp32-grads",
        "bf16 weights, fp32 gradients and moments, no master",
        "bf16 bf16 bf16 fp32 fp32 fp32",
    ),
    _recipe(
        "bf16-amp",
        "fp32 weights and gradients, bf16 autocast or FSDP mixed precision",
        "fp32 bf16 bf16 fp32 fp32 fp32",
    ),
    _recipe("bf16", "pure bf16: weights, gradients and moments", "bf16 bf16 bf16 bf16 bf16 bf16"),
    _recipe(
        "fp8",
        "FP8 matrix products with per-tensor scales, bf16 weights, fp32 gradients and master",
        "bf16 bf16 bf16 fp32 fp32 fp32",
        master="fp32",
        quantized="fp8_e4m3",
    ),
    _recipe(
        "mxfp8",
        "MXFP8 matrix products (blocks of 32), bf16 weights, fp32 gradients and master",
        "bf16 bf16 bf16 fp32 fp32 fp32",
        master="fp32",
        quantized="mxfp8",
    ),
    *(
        _recipe(
            f"{name}-amp",
            f"{narrow} products quantised as they are made (torchao), fp32 weights and gradients",
            "fp32 bf16 bf16 fp32 fp32 fp32",
            quantized=narrow,
            dynamic=True,
        )
        for name, narrow in (("fp8", "fp8_e4m3"), ("mxfp8", "mxfp8"), ("nvfp4", "nvfp4"))
    ),
    _recipe(
        "nvfp4",
        "NVFP4 matrix products (blocks of 16), bf16 weights, fp32 gradients and master",
        "bf16 bf16 bf16 fp32 fp32 fp32",
        master="fp32",
        quantized="nvfp4",
    ),
)

PRECISIONS: dict[str, Precision] = {recipe.name: recipe for recipe in _RECIPES}


def precision(name: str, field: str = "precision") -> Precision:
    """The recipe of that name.

    Raises:
        InputError: there is none.
    """
    try:
        return PRECISIONS[name.strip().lower().replace("_", "-")]
    except KeyError:
        raise InputError(
            field=field,
            value=name,
            problem="is not a precision recipe",
            accepted=", ".join(PRECISIONS),
        ) from None


def check_peaks(recipe: Precision, device: Device) -> None:
    """Check that a device has a peak for the products of a recipe.

    Raises:
        InputError: it has none, with the recipes that it has one for.
    """
    missing = _without_peak(recipe, device)
    if not missing:
        return
    possible = [each.name for each in PRECISIONS.values() if not _without_peak(each, device)]
    raise InputError(
        field="precision",
        value=recipe.name,
        problem=f"needs a {missing} peak, and none is published for {device.name}",
        accepted=", ".join(possible),
        hint="" if possible else "a device file can give one",
    )


def _without_peak(recipe: Precision, device: Device) -> str:
    """The first format of a recipe's products that a device has no peak for; empty: none."""
    formats = (dtype(recipe.compute).peak, dtype(recipe.matmul).peak)
    return next((name for name in formats if name not in device.peak), "")


def bytes_per_parameter(recipe: Precision, moments: int = 2) -> float:
    """Weights, gradients, master and ``moments`` optimizer moments, in bytes a parameter.

    The napkin's figure: what Rajbhandari et al. (arXiv 1910.02054, section 3.1) count as
    16 for fp16 mixed precision with Adam.
    """
    roles = [recipe.weights, recipe.gradients, recipe.accumulation, recipe.master]
    stored = sum(dtype(role).bytes for role in roles if role)
    return float(stored + moments * dtype(recipe.moments).bytes)
