"""A host: the memory that its processors have, and the links from there to its devices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tonnage.cluster.link import Link
from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Host:
    """What devices find in the machine that they are in.

    Attributes:
        link: between the host's memory and a device: bytes per second of one direction.
        sharing: devices that share one such link, through a switch of PCI Express.
        memory: bytes per second between all processors of the host and their memory, read and
            written together: channels times their rate.
        source: where the figures come from.
        devices: that have this memory to themselves, where a node has a memory for each of
            several parts of it; None: all devices of a node have the same.
    """

    link: Link
    sharing: int
    memory: float
    source: str
    devices: int | None = None

    def __post_init__(self) -> None:
        """Check that the memory gives something, and that somebody has the link."""
        if not (math.isfinite(self.memory) and self.memory > 0):
            raise InputError(
                field="host_memory_bandwidth",
                value=self.memory,
                problem="carries nothing",
                accepted="bytes per second, more than 0",
            )
        if type(self.sharing) is not int or self.sharing < 1:
            raise InputError(
                field="host_sharing",
                value=self.sharing,
                problem="is not a positive whole number",
                accepted="devices behind one link to the host, 1 or more",
            )
