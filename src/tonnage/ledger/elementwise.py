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
    storage: Tensor | None = None,
) -> tuple[Operations, Tensor]:
    """A normalisation over the last ``width`` elements of ``read``.

    It has as many weights, or ``weights``, where heads are normalised with one for each.

    A fused norm keeps its input and, in fp32, one statistic a row (RMSNorm) or two
    (LayerNorm). One written in Python keeps what `_kept_in_python` says.

    Args:
        setting: the run.
        spec: the normalisation.
        name: prefix of its tensors and weights.
        read: what is normalised.
        width: elements that share a statistic.
        weights: elements of its weight, where they are not ``width``.
        modules: names under which recomputation may pick it.
        storage: what ``read`` is a view of, where it is one.
    """
    rows = exact_div(read.elements, width)
    output = Tensor(name=name, elements=read.elements, format=setting.stream)
    trains = setting.plan.lora_rank is None
    shape = (width if weights is None else weights,)
    owned = []
    if spec.weight:
        owned.append(Weight(name=f"{name}.weight", shape=shape, trains=trains))
    if spec.bias:
        owned.append(Weight(name=f"{name}.bias", shape=shape, trains=trains))
    eager = setting.runtime.norm == "eager" and spec.kind == "rmsnorm"
    saves = [read if storage is None else storage]
    if eager:
        saves = _kept_in_python(spec, name, read, shape[0] if trains and spec.weight else None)
        if read.format == "fp32":
            saves.append(read if storage is None else storage)
    if setting.runtime.norm_statistics:
        saves.append(_statistics(setting, spec, name, read, rows))
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


def _kept_in_python(spec: Norm, name: str, read: Tensor, trained: Number | None) -> list[Tensor]:
    """What a norm written in Python keeps, beside its statistic and an input that is fp32.

    An fp32 copy of any other input; and for the weight's gradient the normalised value in
    the input's format. A centred norm casts after its weight: the value is in fp32 then,
    and 1 + weight is a tensor of its own.
    """
    saves = [] if read.format == "fp32" else [read.cast(f"{name}.input_fp32", "fp32")]
    if trained is not None:
        normalised = "fp32" if spec.centred else read.format
        saves.append(read.cast(f"{name}.normalised", normalised))
        if spec.centred:
            saves.append(Tensor(name=f"{name}.one_plus_weight", elements=trained, format="fp32"))
    return saves


def _statistics(setting: Setting, spec: Norm, name: str, read: Tensor, rows: Number) -> Tensor:
    """One number a row for an RMSNorm, two for a LayerNorm, whose kernel chooses the format."""
    if spec.kind == "rmsnorm":
        return Tensor(name=f"{name}.statistics", elements=rows, format="fp32")
    own = setting.runtime.layernorm_statistics == "input"
    number_format = read.format if own else "fp32"
    return Tensor(name=f"{name}.statistics", elements=2 * rows, format=number_format)


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
