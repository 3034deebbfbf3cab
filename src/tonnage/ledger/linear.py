"""Linear layers, sharded over tensor-parallel ranks, with or without adapters.

A column-parallel layer splits its outputs, a row-parallel one its inputs (Shoeybi et al.,
arXiv 1909.08053, section 3). Between such pairs the activations are either whole on every
rank and all-reduced, or, with sequence parallelism, sharded along the sequence: gathered
before and reduce-scattered after (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tonnage.algebra import Number, exact_div, flops_of
from tonnage.ledger.adapter import Adapter, adapted, adapter
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A linear layer's facts.

    Attributes:
        name: its name within the layer; also the name of its output tensor.
        width_in: input features, over all ranks that share the layer.
        width_out: output features, over all ranks that share the layer.
        split: which of the two is split: ``column`` the outputs, ``row`` the inputs.
        bias: whether it has a bias.
        target: its name among LoRA targets; None: adapters leave it alone.
        modules: names under which recomputation may pick it.
        narrow: whether an FP8 or FP4 recipe applies (not to routers and the head).
        part_of: the layer that it is a part of, where a class has one layer for several.
    """

    name: str
    width_in: Number
    width_out: Number
    split: Literal["column", "row", "none"] = "none"
    bias: bool = False
    target: str | None = None
    modules: tuple[str, ...] = ()
    narrow: bool = True
    part_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a linear layer multiplies and who shares its weight.

    Attributes:
        read: the input as the product reads it (gathered over the sequence).
        kept: the input as it is kept for backward (still sharded).
        tokens: rows of the product.
        degree: ranks that share the layer.
        copies: weights of this shape that share the rows (local experts).
        group: which ranks hold the same weight.
    """

    read: Tensor
    kept: Tensor
    tokens: Number
    degree: Number
    copies: Number = 1
    group: Literal["dense", "expert"] = "dense"


def linear(setting: Setting, spec: Linear, rows: Rows) -> tuple[Operations, Tensor]:
    """One linear layer, ``[tokens, width_in] @ [width_in, width_out]``.

    FLOPs forward are ``2 · tokens · width_in · width_out``; backward is the same again for
    the input's gradient and once more for the weight's, where the weight trains.

    Returns:
        The operations and the output tensor.
    """
    wide_in = exact_div(spec.width_in, rows.degree) if spec.split == "row" else spec.width_in
    wide_out = exact_div(spec.width_out, rows.degree) if spec.split == "column" else spec.width_out
    frozen = not setting.trains_base
    weight = Weight(
        name=f"{spec.name}.weight",
        shape=(wide_in, wide_out),
        copies=rows.copies,
        group=rows.group,
        trains=not frozen,
        base=spec.target is not None,
        narrow=spec.narrow,
    )
    bias = Weight(
        name=f"{spec.name}.bias",
        shape=(wide_out,),
        copies=rows.copies,
        group=rows.group,
        trains=not frozen,
    )
    # What is not split is not gathered.
    own = setting.runtime.regathers or spec.split == "none"
    kept = rows.kept if own else rows.read
    output = Tensor(name=spec.name, elements=rows.tokens * wide_out, format=setting.format)
    flops = 2 * flops_of(rows.tokens) * wide_in * wide_out
    product = Operation(
        name=spec.name,
        kind="matmul",
        inputs=(rows.read,),
        outputs=(output,),
        saves=_kept_operands(setting, spec, kept, weight),
        weights=(weight, bias) if spec.bias else (weight,),
        flops=flops,
        flops_backward=flops if frozen else 2 * flops,
        modules=spec.modules,
        scratch=dequantised(setting, weight),
        scratch_backward=dequantised(setting, weight),
    )
    if not adapted(setting, spec.target):
        return (product,), output
    beside = Adapter(
        name=spec.name,
        read=rows.read,
        kept=kept,
        tokens=rows.tokens,
        frozen=weight,
        modules=spec.modules,
        entry=spec.part_of or spec.name,
    )
    done, summed = adapter(setting, beside, output)
    return (product, *done), summed


def _kept_operands(
    setting: Setting, spec: Linear, kept: Tensor, weight: Weight
) -> tuple[Tensor, ...]:
    """What backward needs: for the weight's gradient the input, in the format that was read.

    Under torch.autocast also the cast weight, for the input's gradient: its master copy is
    in another format. A frozen weight has no gradient of its own.
    """
    recipe = setting.precision
    if not weight.trains:
        copies = _quantised_input(setting, spec, kept, weight)
        return (*copies, _cast_weight(setting, spec, weight)) if setting.casts else copies
    if recipe.quantized and spec.narrow and not recipe.dynamic:
        if kept.copy_of:  # narrow already, for another backward pass too
            return (kept,)
        return (kept.copy(f"{kept.name}.{recipe.quantized}", recipe.quantized),)
    if setting.casts:
        # torch.autocast casts call by call: each layer keeps copies of its own.
        cast_input = kept.copy(f"{spec.part_of or spec.name}.input_cast", recipe.compute)
        operand = cast_input if kept.format != recipe.compute else kept
        return (operand, _cast_weight(setting, spec, weight))
    return (kept,)


def _quantised_input(
    setting: Setting, spec: Linear, kept: Tensor, weight: Weight
) -> tuple[Tensor, ...]:
    """The copy of its input that a product with a quantised weight keeps, if it keeps one."""
    habit = setting.runtime.quantized_input
    if habit == "free" or setting.plan.lora_base is None or not weight.base:
        return ()
    wide = "fp32" if habit == "wide" else setting.precision.compute
    name = spec.part_of or spec.name
    return (kept.copy(f"{name}.quantised_input", wide),)


def dequantised(setting: Setting, weight: Weight) -> tuple[Tensor, ...]:
    """A quantised weight is brought back whole for each product, and not kept."""
    if setting.plan.lora_base is None or not weight.base:
        return ()
    one = exact_div(weight.numel, weight.copies)
    return (Tensor(name=f"{weight.name}.whole", elements=one, format=setting.precision.compute),)


def _cast_weight(setting: Setting, spec: Linear, weight: Weight) -> Tensor:
    return Tensor(
        name=f"{spec.name}.weight_cast", elements=weight.numel, format=setting.precision.compute
    )


def gather(
    setting: Setting, shard: Tensor, width: Number, modules: tuple[str, ...] = ()
) -> tuple[Operations, Tensor]:
    """Enter a tensor-parallel region: every rank reads all tokens of the micro-batch.

    With sequence parallelism that is an all-gather forward and a reduce-scatter of the
    input's gradient backward, and, where only the shard was kept, one more all-gather backward
    to rebuild the input. Without it, the gradient is all-reduced.
    """
    full = Tensor(
        name=f"{shard.name}.gathered" if setting.sp else shard.name,
        elements=setting.tokens * width,
        format=shard.format,
    )
    wire = Tensor(name=full.name, elements=full.elements, format=setting.format).bytes
    if setting.sp:
        collectives = [
            Collective(kind="all_gather", axis="tp", bytes=wire, phase="forward"),
            Collective(kind="reduce_scatter", axis="tp", bytes=wire, phase="backward"),
        ]
        if setting.runtime.regathers:
            again = Collective(kind="all_gather", axis="tp", bytes=wire, phase="backward")
            collectives.append(again)
    else:
        collectives = [Collective(kind="all_reduce", axis="tp", bytes=wire, phase="backward")]
    operation = Operation(
        name=f"{shard.name}.gather",
        kind="communication",
        inputs=(shard,) if setting.sp else (),
        outputs=(full,) if setting.sp else (),
        collectives=tuple(collectives),
        into_buffer=setting.runtime.gather_buffers > 0,
        modules=modules,
    )
    return (operation,), full


def scatter(setting: Setting, full: Tensor, width: Number) -> tuple[Operations, Tensor]:
    """Leave a tensor-parallel region: sum the ranks' partial results.

    With sequence parallelism each rank is left with its share of the sequence, in a new
    tensor; an all-reduce works in place.
    """
    shard = full
    if setting.sp:
        shard = Tensor(
            name=f"{full.name}.reduced", elements=setting.shard_tokens * width, format=full.format
        )
    operation = Operation(
        name=f"{full.name}.reduce",
        kind="communication",
        inputs=(full,) if setting.sp else (),
        outputs=(shard,) if setting.sp else (),
        collectives=sum_over_ranks(setting, full),
    )
    return (operation,), shard


def sum_over_ranks(setting: Setting, full: Tensor) -> tuple[Collective, ...]:
    """Sum partial results over the tensor-parallel ranks, and what that costs backward."""
    if not setting.sp:
        return (Collective(kind="all_reduce", axis="tp", bytes=full.bytes, phase="forward"),)
    return (
        Collective(kind="reduce_scatter", axis="tp", bytes=full.bytes, phase="forward"),
        Collective(kind="all_gather", axis="tp", bytes=full.bytes, phase="backward"),
    )
