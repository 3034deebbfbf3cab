"""Seconds of an operation on one device: a roofline."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, maximum
from tonnage.cluster import Device
from tonnage.dtype import dtype
from tonnage.ledger import Operation
from tonnage.ledger.operation import union_bytes
from tonnage.plan import Setting
from tonnage.timing.efficiency import Efficiency


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one device does in a second inside a step.

    Attributes:
        matmul: FLOP/s of matrix products in the recipe's narrowest format.
        wide: FLOP/s of what a narrow recipe leaves alone: attention, the head, routers.
        memory: bytes per second.
    """

    matmul: float
    wide: float
    memory: float


def rates(setting: Setting, device: Device, efficiency: Efficiency) -> Rates:
    """The device's rates under a recipe.

    Raises:
        InputError: the device has no published peak for the recipe's format.
    """
    recipe = setting.precision
    return Rates(
        matmul=device.peak_flops(recipe.matmul, field="precision") * efficiency.compute,
        wide=device.peak_flops(recipe.compute, field="precision") * efficiency.compute,
        memory=device.bandwidth * efficiency.memory,
    )


def forward_seconds(setting: Setting, rate: Rates, operation: Operation) -> Number:
    """The larger of FLOPs over rate and bytes over bandwidth, in the forward pass."""
    if operation.kind == "communication":
        return 0.0
    moved = union_bytes((*operation.inputs, *operation.outputs)) + _weight_bytes(setting, operation)
    return maximum(operation.flops / _rate(rate, operation), moved / rate.memory)


def backward_seconds(setting: Setting, rate: Rates, operation: Operation) -> Number:
    """The same for the backward pass.

    It reads what was saved and the gradient of each output, and writes the gradient of each
    input and of each weight.
    """
    if operation.kind == "communication":
        return 0.0
    moved = union_bytes(operation.saves) + union_bytes((*operation.inputs, *operation.outputs))
    moved = moved + 2 * _weight_bytes(setting, operation)
    flops = operation.flops_backward + operation.flops_inside
    return maximum(flops / _rate(rate, operation), moved / rate.memory)


def _rate(rate: Rates, operation: Operation) -> float:
    narrow = any(weight.narrow for weight in operation.weights)
    return rate.matmul if narrow else rate.wide


def _weight_bytes(setting: Setting, operation: Operation) -> Number:
    if operation.kind != "matmul":
        return 0
    size = dtype(setting.precision.compute).bytes
    count: Number = 0
    for weight in operation.weights:
        count = count + weight.numel * size
    return count
