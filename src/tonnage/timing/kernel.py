"""Seconds of an operation's kernels on one device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, maximum, total
from tonnage.cluster import Device
from tonnage.dtype import dtype
from tonnage.ledger import Operation, Operations
from tonnage.ledger.operation import Phase, Tensor, union_bytes
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.attention import FlashRates, flash_seconds, flash_shares
from tonnage.timing.efficiency import (
    STATED,
    Efficiency,
    attention_flops,
    generation,
    measured,
    sustained_flops,
)
from tonnage.timing.gemm import Product, ProductRates, product_seconds

ASSUMED_MULTIPROCESSORS = 128
"""Multiprocessors of a device whose maker does not say."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one device does in a second inside a step.

    Attributes:
        narrow: products in the recipe's narrowest format.
        wide: products that a narrow recipe leaves alone: the head, routers, scores.
        flash: of flash attention.
        memory: bytes per second of memory-bound operations.
        scattered: bytes per second of kernels that follow an index.
        softmax: bytes per second of unfused softmax and dropout.
        start: seconds of a memory-bound kernel beside its bytes.
    """

    narrow: ProductRates
    wide: ProductRates
    flash: FlashRates
    memory: float
    scattered: float
    softmax: float
    start: float


def rates(setting: Setting, device: Device, efficiency: Efficiency = STATED) -> Rates:
    """The device's rates under a recipe.

    Raises:
        InputError: the device has no published peak for the recipe's format.
    """
    recipe = setting.precision
    wide = sustained_flops(device, recipe.compute, efficiency)
    narrow = sustained_flops(device, recipe.matmul, efficiency)
    return Rates(
        narrow=product_rates(device, narrow, recipe.compute, narrow_format=recipe.matmul),
        wide=product_rates(device, wide, recipe.compute),
        flash=flash_rates(device, recipe.compute, setting.plan.attention_version or 2),
        memory=memory_rate(device),
        scattered=device.bandwidth * constants.SCATTERED_MEMORY,
        softmax=device.bandwidth * constants.SOFTMAX_MEMORY,
        start=device.measured.get("elementwise_start", constants.ELEMENTWISE_START),
    )


def memory_rate(device: Device) -> float:
    """Bytes per second of memory-bound operations."""
    share = device.measured.get("elementwise_memory", constants.ELEMENTWISE_MEMORY)
    return device.bandwidth * share


def product_rates(
    device: Device, flops: float, wide_format: str, *, narrow_format: str | None = None
) -> ProductRates:
    """A device's rates for matrix products of some FLOP/s.

    Where nothing was measured on the device itself, by the constants for all devices.

    Args:
        device: the device.
        flops: FLOP/s that the products sustain.
        wide_format: the format whose peak the feed of operands goes with.
        narrow_format: the format of the operands; None: the wide one.
    """
    processors = device.multiprocessors or ASSUMED_MULTIPROCESSORS
    peak = _feed_peak(device, wide_format)

    def constant(name: str, usual: float) -> float:
        found = measured(device, narrow_format or wide_format, f"product_{name}")
        return usual if found is None else found

    return ProductRates(
        multiprocessors=processors,
        flops=flops,
        memory=device.bandwidth * constant("memory", constants.PRODUCT_MEMORY),
        feed=constant("feed", constants.PRODUCT_FEED * peak / processors),
        start=constant("start", constants.PRODUCT_START),
        wave=constant("wave", constants.PRODUCT_WAVE),
        split=constant("split", constants.PRODUCT_SPLIT),
    )


def _feed_peak(device: Device, wide_format: str) -> float:
    """The 16-bit peak that the feed of operands goes with, whatever is multiplied.

    Where there is none, what the wide format's would be in half its bytes.
    """
    peak = device.peak_flops(wide_format, field="precision")
    size = dtype(wide_format).bytes
    if size <= 2:
        return peak
    return device.peak.get("bf16") or device.peak.get("fp16") or peak * size / 2


def flash_rates(device: Device, number_format: str, version: int) -> FlashRates:
    """A device's rates for one generation of the flash kernel, or those measured on it.

    Raises:
        InputError: the device has no published peak for the format.
    """
    forward, backward = flash_shares(generation(device), version)
    # Shares of the maker's peak where they were measured, and else of what power allows.
    usual = attention_flops(device, number_format)
    peak = device.peak_flops(number_format, field="precision")
    own = [measured(device, number_format, f"attention_{way}") for way in ("forward", "backward")]
    return FlashRates(
        flops=usual,
        forward=forward if own[0] is None else own[0] * peak / usual,
        backward=backward if own[1] is None else own[1] * peak / usual,
        memory=memory_rate(device),
        multiprocessors=device.multiprocessors or ASSUMED_MULTIPROCESSORS,
    )


def forward_seconds(setting: Setting, rate: Rates, operation: Operation) -> Number:
    """Seconds of an operation's forward pass."""
    if operation.kind == "matmul" and operation.inputs:
        return _product_time(setting, rate, operation, _product(setting, operation))
    if operation.kind == "attention":
        return _attention(rate, operation, "forward")
    return _memory_bound(setting, rate, operation, _forward_bytes(operation))


def backward_seconds(setting: Setting, rate: Rates, operation: Operation) -> Number:
    """Seconds of an operation's backward pass.

    A product's is two products: of its output's gradient with the other operand, for each
    operand that has a gradient.
    """
    if operation.kind == "matmul" and operation.inputs:
        products = _gradients(setting, operation, _product(setting, operation))
        return total(_product_time(setting, rate, operation, product) for product in products)
    if operation.kind == "attention":
        return _attention(rate, operation, "backward")
    moved = union_bytes(operation.saves) + union_bytes((*operation.inputs, *operation.outputs))
    return _memory_bound(setting, rate, operation, moved)


def _narrow(operation: Operation) -> bool:
    return any(weight.narrow for weight in operation.weights)


def _product(setting: Setting, operation: Operation) -> Product:
    """The shape of a product, from the elements that it reads and writes and its FLOPs."""
    recipe = setting.precision
    read, wrote = operation.inputs[0].elements, operation.outputs[0].elements
    depth = operation.flops / 2 / wrote
    rows = read / depth
    columns = wrote / rows
    copies: Number = 1
    if operation.weights:
        copies = operation.weights[0].copies
    elif len(operation.inputs) > 1:
        copies = operation.inputs[1].elements / (depth * columns)
    narrow = recipe.matmul if _narrow(operation) else recipe.compute
    return Product(
        rows=rows / copies,
        columns=columns,
        depth=depth,
        copies=copies,
        operand_bytes=dtype(narrow).bytes,
        result_bytes=dtype(operation.outputs[0].format).bytes,
    )


def _gradients(setting: Setting, operation: Operation, product: Product) -> list[Product]:
    """The products of the backward pass: the input's gradient, and the other operand's."""
    to_input = dataclasses.replace(product, columns=product.depth, depth=product.columns)
    if operation.weights and not operation.weights[0].trains:
        return [to_input]
    # With fused accumulation a weight's gradient is read and written in fp32.
    fused = bool(operation.weights) and setting.runtime.placeholder_gradients
    to_weight = dataclasses.replace(
        product,
        rows=product.depth,
        depth=product.rows,
        result_bytes=8.0 if fused else product.result_bytes,
    )
    return [to_input, to_weight]


def _product_time(setting: Setting, rate: Rates, operation: Operation, product: Product) -> Number:
    seconds = product_seconds(product, rate.narrow if _narrow(operation) else rate.wide)
    if not operation.weights or setting.runtime.host == "graph":
        return seconds
    return seconds + constants.EXPERT_START * (product.copies - 1)


def cast_seconds(setting: Setting, rate: Rates, operations: Operations, phase: Phase) -> Number:
    """Casting what narrow products read: each input once, and backward each gradient.

    Products that read the same tensor share its cast.
    """
    if not setting.precision.quantized:
        return 0.0
    narrow = [op for op in operations if op.kind == "matmul" and _narrow(op)]
    ends = [op.inputs[0] if phase == "forward" else op.outputs[0] for op in narrow]
    elements = total({tensor.name: tensor.elements for tensor in ends}.values())
    return constants.CAST_TRAFFIC * elements / rate.memory


def _attention(rate: Rates, operation: Operation, phase: Phase) -> Number:
    """A flash kernel, by its generation's share of peak, and its inputs and outputs."""
    rows = operation.rows
    flops = operation.flops
    if phase == "backward":
        flops = operation.flops_backward + operation.flops_inside
    return flash_seconds(
        rate.flash,
        phase,
        flops=flops,
        moved=union_bytes((*operation.inputs, *operation.outputs)),
        width=128 if rows is None else operation.inputs[0].elements / rows,
        rows=rows,
    )


def _forward_bytes(operation: Operation) -> Number:
    """What is read and written, with what is written for backward alone."""
    written: dict[str, Tensor] = {t.name: t for t in (*operation.outputs, *operation.inputs)}
    aside = [t for t in operation.saves if t.name not in written]
    return union_bytes((*operation.inputs, *operation.outputs, *aside))


def _memory_bound(setting: Setting, rate: Rates, operation: Operation, moved: Number) -> Number:
    """Bytes over bandwidth, and the start of the kernel; scans also by their FLOPs."""
    if operation.kind == "communication":
        return 0.0
    eager = setting.runtime.kernels == "eager" and not setting.plan.compile
    if operation.moves and eager:
        return 0.0
    core = "core_attn" in operation.modules
    scattered = operation.scattered and setting.runtime.permute == "kernels"
    speed = rate.softmax if core else rate.scattered if scattered else rate.memory
    factor = 1.0
    if eager and not core:
        factor = constants.EAGER_TRAFFIC
    seconds = factor * moved / speed + rate.start
    return maximum(seconds, operation.flops / rate.flash.flops)
