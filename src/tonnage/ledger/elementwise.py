"""Norms, dropout and residual sums: what memory bandwidth bounds."""

from __future__ import annotations

from tonnage.algebra import Number, exact_div
from tonnage.arch import Norm
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def norm(
    setting: Setting,
    spec: Norm,
    *,
    name: str,
    read: Tensor,
    width: Number,
    weights: Number | None = None,
    modules: tuple[str, ...] = ("layernorm",),
) -> tuple[Operations, Tensor]:
    """A normalisation over the last ``width`` elements of ``read``.

    It has as many weights, or ``weights``, where heads are normalised with one for each.

    A fused norm keeps its input and, in fp32, one statistic a row (RMSNorm) or two
    (LayerNorm). One written in Python keeps an fp32 copy of the input, the statistic and,
    for the weight's gradient, the normalised value.
    """
    rows = exact_div(read.elements, width)
    output = Tensor(name=name, elements=read.elements, format=setting.stream)
    trains = setting.trains_base
    shape = (width if weights is None else weights,)
    owned = []
    if spec.weight:
        owned.append(Weight(name=f"{name}.weight", shape=shape, trains=trains))
    if spec.bias:
        owned.append(Weight(name=f"{name}.bias", shape=shape, trains=trains))
    eager = setting.runtime.norm == "eager" and spec.kind == "rmsnorm"
    saves = [read.cast(f"{name}.input_fp32", "fp32") if eager and read.format != "fp32" else read]
    if eager and trains and spec.weight:
        saves.append(output.cast(f"{name}.normalised", setting.stream))
    if setting.runtime.norm_statistics:
        per_row = 1 if spec.kind == "rmsnorm" else 2
        saves.append(Tensor(name=f"{name}.statistics", elements=per_row * rows, format="fp32"))
    operation = Operation(
        name=name,
        kind="elementwise",
        inputs=(read,),
        outputs=(output,),
        saves=tuple(saves),
        weights=tuple(owned),
        modules=modules,
    )
    return (operation,), output


def dropout_mask(name: str, elements: Number) -> Tensor:
    """A dropout mask: one byte an element."""
    return Tensor(name=f"{name}.dropout_mask", elements=elements, format="int8")


def residual(
    setting: Setting, *, name: str, branch: Tensor, stream: Tensor, dropout: float
) -> tuple[Operations, Tensor]:
    """Dropout of a branch and its sum with the residual stream."""
    output = Tensor(name=name, elements=stream.elements, format=setting.stream)
    mask = (dropout_mask(name, stream.elements),) if dropout > 0 else ()
    operation = Operation(
        name=name,
        kind="elementwise",
        inputs=(branch, stream),
        outputs=(output,),
        saves=mask,
        passes_gradient=not mask,
    )
    return (operation,), output
