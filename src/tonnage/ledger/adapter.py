"""Adapters: low-rank products beside frozen linear layers, and what they keep for backward."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, flops_of
from tonnage.ledger.elementwise import dropout_mask
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def adapted(setting: Setting, target: str | None) -> bool:
    """Whether adapters sit on a linear layer of that target name."""
    plan = setting.plan
    if plan.lora_rank is None or target is None:
        return False
    inside = "all" in plan.lora_targets and target not in ("lm_head", "qkv_proj")
    return inside or target in plan.lora_targets


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """Where an adapter sits.

    Attributes:
        name: the linear layer's name.
        read: what the layer reads.
        kept: the same as it is kept for backward (still sharded over the sequence).
        tokens: rows of the product.
        frozen: the layer's own weight, which says shapes, copies and who holds the same.
        modules: names under which recomputation may pick it.
        entry: the projection whose input is dropped: the layer's own name, or that of the fused
            projection that the layer is a part of.
    """

    name: str
    read: Tensor
    kept: Tensor
    tokens: Number
    frozen: Weight
    modules: tuple[str, ...] = ()
    entry: str = ""


def adapter(setting: Setting, spec: Adapter, output: Tensor) -> tuple[Operations, Tensor]:
    """``x A B`` beside ``x W`` (Hu et al., arXiv 2106.09685, section 4.1).

    A keeps the input's split and B the output's, so that neither adds a collective.

    Args:
        setting: the run.
        spec: where the adapter sits.
        output: ``x W``.

    Returns:
        The operations, and the sum.
    """
    compute = setting.adapter_compute
    entry, entered, kept = _enter(setting, spec)
    down, up = _weights(setting, spec)
    inner = Tensor(
        name=f"{spec.name}.lora_inner", elements=spec.tokens * down.shape[1], format=compute
    )
    wide = output.cast(f"{spec.name}.lora", compute)
    summed = output.cast(f"{spec.name}.adapted", output.format)
    add = Operation(
        name=f"{spec.name}.lora_sum",
        kind="elementwise",
        inputs=(output, wide),
        outputs=(summed,),
        saves=(wide,) if _scattered(setting, spec) else (),
        modules=spec.modules,
        passes_gradient=wide.format == output.format,
    )
    return (
        *entry,
        _product(setting, spec, down, (entered, inner), kept),
        _product(setting, spec, up, (inner, wide), (inner,)),
        add,
    ), summed


def _scattered(setting: Setting, spec: Adapter) -> bool:
    """Whether the product is copied into its place among queries, keys and values by index."""
    parts = [adapted(setting, f"{letter}_proj") for letter in "qkv"]
    return setting.runtime.adapter_scatter and spec.entry != spec.name and not all(parts)


def _weights(setting: Setting, spec: Adapter) -> tuple[Weight, Weight]:
    rank, (wide_in, wide_out) = setting.plan.lora_rank, spec.frozen.shape
    wide = setting.adapter_format

    def one(name: str, shape: tuple[Number, Number]) -> Weight:
        return Weight(
            name=f"{spec.name}.{name}",
            shape=shape,
            copies=spec.frozen.copies,
            group=spec.frozen.group,
            format=wide if wide != setting.precision.weights else None,
            adapter=True,
        )

    return one("lora_a", (wide_in, rank)), one("lora_b", (rank, wide_out))


def _enter(setting: Setting, spec: Adapter) -> tuple[Operations, Tensor, tuple[Tensor, ...]]:
    """From the layer's input to what A reads, and what A's gradient needs of it.

    As modules (PEFT ``lora.Linear.forward``): the input is cast to the adapter's format, then
    dropped with a mask of one byte an element; A keeps what it multiplies, under autocast the
    16-bit copy. Fused (Unsloth, fms-acceleration): the kernel keeps the input, once for all
    layers that read it, and each layer's dropped copy, without a mask.
    """
    read, dropout = spec.read, setting.plan.lora_dropout > 0
    if setting.runtime.adapter_kernel == "fused":
        if not dropout:
            return (), read, (spec.kept,)
        dropped = read.cast(f"{spec.name}.lora_dropped", read.format)
        return (_step(spec, "lora_dropout", read, dropped),), dropped, (spec.kept, dropped)
    entry: list[Operation] = []
    seen = setting.adapter_compute if setting.gathers else setting.adapter_format
    if seen != read.format:
        wide = read.cast(f"{spec.entry}.lora_input", seen)
        entry.append(_step(spec, "lora_cast", read, wide))
        read = wide
    if dropout:
        dropped = read.cast(f"{spec.entry}.lora_dropped", seen)
        mask = dropout_mask(f"{spec.entry}.lora", dropped.elements)
        entry.append(_step(spec, "lora_dropout", read, dropped, mask))
        read = dropped
    if read.format != setting.adapter_compute:
        return tuple(entry), read, (read.cast(f"{read.name}_cast", setting.adapter_compute),)
    return tuple(entry), read, (spec.kept if read is spec.read else read,)


def _step(spec: Adapter, name: str, read: Tensor, wrote: Tensor, *saves: Tensor) -> Operation:
    return Operation(
        name=f"{spec.name}.{name}",
        kind="elementwise",
        inputs=(read,),
        outputs=(wrote,),
        saves=saves,
        modules=spec.modules,
    )


def _product(
    setting: Setting,
    spec: Adapter,
    weight: Weight,
    way: tuple[Tensor, Tensor],
    kept: tuple[Tensor, ...],
) -> Operation:
    """One of the two products; under autocast it also keeps its weight's 16-bit copy."""
    flops = 2 * flops_of(spec.tokens) * weight.shape[0] * weight.shape[1]
    if setting.adapter_format != setting.adapter_compute and not setting.gathers:
        cast = Tensor(
            name=f"{weight.name}.weight_cast",
            elements=weight.numel,
            format=setting.adapter_compute,
        )
        kept = (*kept, cast)
    return Operation(
        name=weight.name,
        kind="matmul",
        inputs=way[:1],
        outputs=way[1:],
        saves=kept,
        weights=(weight,),
        flops=flops,
        flops_backward=2 * flops,
        modules=spec.modules,
    )
