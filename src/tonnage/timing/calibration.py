"""Kernels and collectives measured on a device -> the constants of the time model for it.

The functions that are fitted are those that time a step: nothing here is a second form of any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from tonnage.cluster import Cluster, Device
from tonnage.cluster.measured import (
    DEVICE_CONSTANTS,
    FORMAT_CONSTANTS,
    SCALE_UP_CONSTANTS,
    Constant,
)
from tonnage.dtype import dtype
from tonnage.ledger.operation import Collective, Phase
from tonnage.mesh import Axis
from tonnage.timing import constants
from tonnage.timing.attention import flash_seconds
from tonnage.timing.collective import collective_seconds, link_rates
from tonnage.timing.efficiency import sustained_flops
from tonnage.timing.fit import Fit, Unknown, fit
from tonnage.timing.gemm import Product, product_seconds
from tonnage.timing.kernel import flash_rates, memory_rate, product_rates

Kind: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]

FLASH_GENERATION: Final = 2
"""Whose shares attention's constants start from."""

HEAD: Final = 128
"""Width of the heads that attention is measured with, which its constants are defined by."""


@dataclass(frozen=True, kw_only=True)
class ProductTime:
    """A measured matrix product ``C[m, n] = A[m, k] B[k, n]``: elements, and seconds."""

    rows: int
    columns: int
    depth: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AttentionTime:
    """A measured causal flash kernel with heads of 128: sequences, heads, tokens, seconds."""

    batch: int
    heads: int
    seq: int
    phase: Phase
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TrafficTime:
    """A measured memory-bound kernel: bytes read and written, and seconds."""

    moved: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CollectiveTime:
    """A measured collective inside one scale-up domain: the full tensor's bytes, and seconds."""

    kind: Kind
    bytes: int
    ranks: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What was measured on one device.

    Attributes:
        products: matrix products by number format.
        attention: flash kernels by number format.
        traffic: memory-bound kernels.
        host_passes: seconds of one pass through an eager layer that is too small to matter.
        collectives: collectives between devices of one domain.
    """

    products: Mapping[str, Sequence[ProductTime]] = dataclasses.field(default_factory=dict)
    attention: Mapping[str, Sequence[AttentionTime]] = dataclasses.field(default_factory=dict)
    traffic: Sequence[TrafficTime] = ()
    host_passes: Sequence[float] = ()
    collectives: Sequence[CollectiveTime] = ()


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A device with the constants that were fitted, and how each fit went.

    Attributes:
        device: the device; what was not determined is left out.
        fits: the fit of each group of measurements, by what was measured.
    """

    device: Device
    fits: dict[str, Fit]


def calibrate(base: Device, found: Measurements) -> Calibration:
    """Fit the constants of a device to what was measured on it.

    Args:
        base: the device as its maker publishes it; where the fits start from.
        found: what was measured.
    """
    fits: dict[str, Fit] = {}
    device = base
    if found.traffic:
        fits["traffic"] = _fit_traffic(device, found.traffic)
        device = with_constants(device, determined(fits["traffic"]))
    if found.host_passes:
        fits["host"] = _fit_host(found.host_passes, device)
        device = with_constants(device, determined(fits["host"]))
    for name, products in found.products.items():
        fits[f"{name} products"] = _fit_products(device, name, products)
        device = with_constants(device, determined(fits[f"{name} products"]))
    for name, kernels in found.attention.items():
        fits[f"{name} attention"] = _fit_attention(device, name, kernels)
        device = with_constants(device, determined(fits[f"{name} attention"]))
    if found.collectives:
        fits["collectives"] = _fit_collectives(device, found.collectives)
        link = dataclasses.replace(
            device.scale_up,
            measured={**device.scale_up.measured, **determined(fits["collectives"])},
        )
        device = dataclasses.replace(device, scale_up=link)
    return Calibration(device=device, fits=fits)


def determined(found: Fit) -> dict[str, float]:
    """The constants of a fit that its data determine."""
    return {each.name: each.value for each in found.constants if each.determined}


def with_constants(device: Device, values: Mapping[str, float]) -> Device:
    """A device with some constants put over what it has."""
    return dataclasses.replace(device, measured={**device.measured, **values})


def format_unknowns(
    device: Device, number_format: str, *, wide_format: str | None = None
) -> dict[str, Unknown]:
    """The eight constants of a device in a number format, from what it is timed with now.

    Args:
        device: the device.
        number_format: of the operands.
        wide_format: what a recipe with these operands computes the rest in; None: the same.

    Raises:
        InputError: the device has no peak in that format.
    """
    key = dtype(number_format).peak
    peak = device.peak_flops(number_format)
    sustained = sustained_flops(device, number_format)
    product = product_rates(
        device, sustained, wide_format or number_format, narrow_format=number_format
    )
    flash = flash_rates(device, number_format, FLASH_GENERATION)
    starts = {
        "product_share": sustained / peak,
        "product_memory": product.memory / device.bandwidth,
        "product_start": product.start,
        "product_wave": product.wave,
        "product_feed": product.feed,
        "product_split": product.split,
        "attention_forward": flash.forward * flash.flops / peak,
        "attention_backward": flash.backward * flash.flops / peak,
    }
    return {
        constant.name: _unknown(constant, starts[constant.name], prefix=f"{key}.")
        for constant in FORMAT_CONSTANTS
    }


def device_unknowns(device: Device) -> dict[str, Unknown]:
    """The three constants of a device in whatever format."""
    starts = {
        "elementwise_memory": memory_rate(device) / device.bandwidth,
        "elementwise_start": device.measured.get("elementwise_start", constants.ELEMENTWISE_START),
        "host_pass": device.measured.get("host_pass", constants.HOST_PASS),
    }
    return {each.name: _unknown(each, starts[each.name]) for each in DEVICE_CONSTANTS}


def link_unknowns(cluster: Cluster) -> dict[str, Unknown]:
    """The seven constants of the link inside a cluster's domains."""
    rates = link_rates(cluster)
    return {
        each.name: _unknown(each, float(getattr(rates, each.name))) for each in SCALE_UP_CONSTANTS
    }


def _unknown(constant: Constant, start: float, *, prefix: str = "") -> Unknown:
    return Unknown(
        name=prefix + constant.name,
        start=min(max(start, constant.least), constant.most),
        least=constant.least,
        most=constant.most,
    )


def _seconds(rows: Iterable[Any]) -> list[float]:
    return [row.seconds for row in rows]


def _column(rows: Iterable[Any], name: str) -> Any:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


def _fit_traffic(device: Device, rows: Sequence[TrafficTime]) -> Fit:
    known = device_unknowns(device)
    moved = _column(rows, "moved")

    def predict(values: Mapping[str, float]) -> Any:
        own = with_constants(device, values)
        return moved / memory_rate(own) + own.measured["elementwise_start"]

    unknowns = [known["elementwise_memory"], known["elementwise_start"]]
    return fit(unknowns, predict, _seconds(rows))


def _fit_host(rows: Sequence[float], device: Device) -> Fit:
    unknown = device_unknowns(device)["host_pass"]
    return fit([unknown], lambda values: np.full(len(rows), values["host_pass"]), rows)


def _fit_products(device: Device, number_format: str, rows: Sequence[ProductTime]) -> Fit:
    size = dtype(number_format).bytes
    shapes = Product(
        rows=_column(rows, "rows"),
        columns=_column(rows, "columns"),
        depth=_column(rows, "depth"),
        operand_bytes=size,
        result_bytes=size,
    )

    def predict(values: Mapping[str, float]) -> Any:
        own = with_constants(device, values)
        rates = product_rates(own, sustained_flops(own, number_format), number_format)
        return product_seconds(shapes, rates)

    known = format_unknowns(device, number_format)
    unknowns = [each for name, each in known.items() if name.startswith("product_")]
    return fit(unknowns, predict, _seconds(rows))


def _fit_attention(device: Device, number_format: str, rows: Sequence[AttentionTime]) -> Fit:
    size = dtype(number_format).bytes
    batch, heads, seq = (_column(rows, name) for name in ("batch", "heads", "seq"))
    queries = batch * heads * seq
    backward = np.array([row.phase == "backward" for row in rows])
    # Two products of s² · d for each head, of which the mask leaves half.
    flops = 2.0 * queries * seq * HEAD

    def predict(values: Mapping[str, float]) -> Any:
        rates = flash_rates(with_constants(device, values), number_format, FLASH_GENERATION)

        def kernel(phase: Phase, work: Any) -> Any:
            return flash_seconds(
                rates, phase, flops=work, moved=4 * queries * HEAD * size, width=HEAD, rows=queries
            )

        return np.where(backward, kernel("backward", 2.5 * flops), kernel("forward", flops))

    known = format_unknowns(device, number_format)
    unknowns = [each for name, each in known.items() if name.startswith("attention_")]
    return fit(unknowns, predict, _seconds(rows))


def _fit_collectives(device: Device, rows: Sequence[CollectiveTime]) -> Fit:
    most = max(row.ranks for row in rows)
    cluster = dataclasses.replace(
        Cluster.of(device, 1), gpus=most, gpus_per_node=most, scale_up_domain=most
    )
    calls: list[Callable[[Cluster], Any]] = [_call(row) for row in rows]

    def predict(values: Mapping[str, float]) -> Any:
        link = dataclasses.replace(device.scale_up, measured=dict(values))
        own = dataclasses.replace(cluster, scale_up=link)
        return np.array([call(own) for call in calls], dtype=np.float64)

    return fit(list(link_unknowns(cluster).values()), predict, _seconds(rows))


def _call(row: CollectiveTime) -> Callable[[Cluster], Any]:
    collective = Collective(kind=row.kind, axis="dp", bytes=row.bytes, phase="forward")
    axis = Axis(name="dp", size=row.ranks, stride=1)
    return lambda cluster: collective_seconds(collective, axis, cluster)
