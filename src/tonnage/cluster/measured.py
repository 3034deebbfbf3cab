"""Constants of the time model that were measured on one device or link.

What a device file may carry beside a maker's figures, and `tonnage calibrate` fits. A constant
that is not there is the time model's own (`tonnage.timing.constants`), which holds for all
devices or for a generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tonnage.errors import InputError

Unit: TypeAlias = Literal["1", "s", "B/s"]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One constant that can be measured.

    Attributes:
        name: its key in a device file.
        unit: ``1`` for a share, ``s``, or ``B/s``.
        meaning: what it is, in one line.
        least: the smallest value that makes sense.
        most: the largest.
    """

    name: str
    unit: Unit
    meaning: str
    least: float
    most: float


def _share(name: str, meaning: str) -> Constant:
    return Constant(name=name, unit="1", meaning=meaning, least=1e-3, most=1.0)


def _seconds(name: str, meaning: str) -> Constant:
    return Constant(name=name, unit="s", meaning=meaning, least=1e-9, most=1.0)


FORMAT_CONSTANTS: Final = (
    _share("product_share", "share of dense peak that a product's inner loop sustains"),
    _share("product_memory", "share of memory bandwidth of a product's operands and result"),
    _seconds("product_start", "a product's kernel beside its tiles"),
    _seconds("product_wave", "a tile beside its multiply-adds"),
    Constant(
        name="product_feed",
        unit="B/s",
        meaning="operands that reach one multiprocessor from cache",
        least=1e6,
        most=1e14,
    ),
    _seconds("product_split", "to sum the pieces of a split depth"),
    _share("attention_forward", "share of dense peak of flash attention with heads of 128"),
    _share("attention_backward", "the same of the backward kernel, 2.5 times the FLOPs"),
)
"""Eight for each device and number format."""

DEVICE_CONSTANTS: Final = (
    _share("elementwise_memory", "share of memory bandwidth of norms, sums and copies"),
    _seconds("elementwise_start", "a memory-bound kernel beside its bytes"),
    _seconds("host_pass", "the host issuing one eager layer's pass, however small the layer"),
)
"""Three for each device, in whatever format."""

SCALE_UP_CONSTANTS: Final = (
    _seconds("start", "launching a collective"),
    _seconds("hop", "a step of the ring, low-latency protocol"),
    _share("low_share", "share of bandwidth, low-latency protocol"),
    _seconds("fill", "what the bandwidth protocol takes to fill its buffers"),
    _seconds("simple_hop", "a step of the ring, bandwidth protocol"),
    _share("share", "share of bandwidth, bandwidth protocol"),
    _share("exchange", "share of bandwidth of an all-to-all"),
)
"""Seven for each link inside a scale-up domain."""

NETWORK_CONSTANTS: Final = (
    _share("share", "share of a port's bandwidth that collectives and sends reach"),
    _seconds("hop", "a step of a ring or tree across nodes"),
)
"""Two for each link between domains."""


def known_constant(name: str) -> Constant:
    """The constant of a name as a device or a fit has it: ``bf16.product_share``, ``network.hop``.

    A bare name that two links have is that of the scale-up link.
    """
    role, _, own = name.rpartition(".")
    if role == "network":
        return next(each for each in NETWORK_CONSTANTS if each.name == own)
    tables = (*DEVICE_CONSTANTS, *FORMAT_CONSTANTS, *SCALE_UP_CONSTANTS)
    return next(each for each in tables if each.name == own)


def check_constants(
    given: Mapping[str, float], known: tuple[Constant, ...], *, field: str
) -> dict[str, float]:
    """The constants of a file, each known and in its range.

    Raises:
        InputError: one is not known, or makes no sense.
    """
    table = {constant.name: constant for constant in known}
    for name, value in given.items():
        constant = table.get(name)
        if constant is None:
            raise InputError(
                field=f"{field}.{name}"[:100],
                value=value,
                problem="is not a constant of the time model",
                accepted=", ".join(table),
            )
        if not constant.least <= value <= constant.most:  # a NaN compares false
            unit = "" if constant.unit == "1" else f" {constant.unit}"
            raise InputError(
                field=f"{field}.{name}",
                value=value,
                problem="is out of range",
                accepted=f"{constant.least:g} to {constant.most:g}{unit}",
            )
    return {name: float(value) for name, value in given.items()}
