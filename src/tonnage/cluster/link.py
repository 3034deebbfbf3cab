"""A link: what carries bytes between two devices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Link:
    """One kind of connection between devices, seen from one device.

    Attributes:
        name: what people call it (``NVLink 4``, ``InfiniBand NDR``).
        bandwidth: bytes per second that one device can send (and receive at the same
            time): the published rate of one direction, without protocol overhead. Data
            sheets of NVLink quote both directions together, so theirs is twice this.
        latency: seconds that one hop of a collective takes beside its bytes.
        source: where both figures come from.
        aliases: other names.
        measured: constants of collectives over it that were measured, by name
            (`tonnage.cluster.measured`).
    """

    name: str
    bandwidth: float
    latency: float
    source: str
    aliases: tuple[str, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check that the link carries something, and not before it was sent."""
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise InputError(
                field="bandwidth",
                value=self.bandwidth,
                problem="carries nothing",
                accepted="bytes per second, more than 0",
            )
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise InputError(
                field="latency",
                value=self.latency,
                problem="is no time",
                accepted="seconds, 0 or more",
            )
