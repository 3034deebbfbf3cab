"""What a run must stay within, how long it is, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.quantity import BytesOrFraction
from tonnage.timing import STATED, Efficiency

RESTART: float = 600.0
"""Seconds from a failure until work goes on, where nobody says. Assumed."""


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Devices that fail, and what a checkpoint of the job can be written with.

    Attributes:
        mtbf: mean seconds between failures that stop the job, of one device and what belongs
            to it (its share of host, links and network).
        checkpoint_bandwidth: bytes per second that the whole job writes to storage.
        restart: seconds from a failure until work goes on; None: `RESTART`.
    """

    mtbf: float
    checkpoint_bandwidth: float
    restart: float | None = None

    def __post_init__(self) -> None:
        """Check that each is a finite number over 0."""
        for field in ("mtbf", "checkpoint_bandwidth", "restart"):
            value = getattr(self, field)
            if value is None and field == "restart":
                continue
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise InputError(
                    field=field, value=value, problem="is not over 0", accepted="a number over 0"
                )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run must stay within, and how long it is.

    Attributes:
        memory_limit: bytes of a device that the run may use; None: all the driver reports.
        margin: what to keep free, in bytes or as a share of the device.
        tokens: tokens of the whole run.
        steps: steps of the whole run.
        efficiency: shares of peak for the time.
        price: of an hour of one device, in whatever currency; needs tokens or steps.
        failures: devices that fail; needs tokens or steps.
    """

    memory_limit: int | None = None
    margin: BytesOrFraction | None = None
    tokens: int | None = None
    steps: int | None = None
    efficiency: Efficiency = STATED
    price: float | None = None
    failures: Failures | None = None

    def __post_init__(self) -> None:
        """Check what belongs together."""
        if self.tokens is not None and self.steps is not None:
            raise InputError(
                field="steps",
                value=self.steps,
                problem="is given beside tokens",
                accepted="one of the two",
            )
        if self.price is not None and not 0 <= self.price < math.inf:
            raise InputError(
                field="price", value=self.price, problem="is no price", accepted="0 or more"
            )
        asked = {
            "price": self.price,
            "mtbf": None if self.failures is None else self.failures.mtbf,
        }
        for field, value in asked.items():
            if value is not None and self.tokens is None and self.steps is None:
                raise InputError(
                    field=field,
                    value=value,
                    problem="needs the length of the run",
                    accepted="with tokens or steps",
                )


def limits_of(limits: Limits | None) -> Limits:
    """The limits, or those of a run without any.

    Raises:
        InputError: what is given are no limits.
    """
    if limits is None:
        return Limits()
    if isinstance(limits, Limits):
        return limits
    raise InputError(
        field="limits",
        value=limits,
        problem=f"is {type(limits).__name__}, and not Limits",
        accepted="tonnage.Limits(...)",
    )
