"""An operation on a device: the roofline of one point.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model",
CACM 52(4), 2009: a kernel takes at least its FLOPs over the peak, and at least its bytes
over the bandwidth; the intensity at which both are equal is the ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tonnage.cluster import Device
from tonnage.dtype import dtype
from tonnage.intensity.work import Work, check_total


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An operation on one device in one number format.

    Attributes:
        work: the operation.
        device: the device's name.
        dtype: the number format of every tensor, and of the arithmetic.
        bytes: bytes moved.
        peak: dense FLOP/s of the device in that format.
        bandwidth: bytes a second of its memory.
    """

    work: Work
    device: str
    dtype: str
    bytes: int
    peak: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        """FLOP per byte moved."""
        return self.work.flops / self.bytes

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the peak takes over from the memory."""
        return self.peak / self.bandwidth

    @property
    def bound(self) -> Literal["memory", "compute"]:
        """Which of the two is the limit."""
        return "compute" if self.intensity >= self.ridge else "memory"

    @property
    def compute_seconds(self) -> float:
        """Seconds of the arithmetic at peak."""
        return self.work.flops / self.peak

    @property
    def memory_seconds(self) -> float:
        """Seconds of the traffic at full bandwidth."""
        return self.bytes / self.bandwidth

    @property
    def seconds(self) -> float:
        """The least time that it takes: no kernel is faster, and most are slower."""
        return max(self.compute_seconds, self.memory_seconds)


def bound(work: Work, device: Device, number_format: str) -> Bounded:
    """Hold an operation to a device's roofline.

    Raises:
        InputError: the format is not known or has no published peak on the device, or the
            counts are past int64.
    """
    entry = dtype(number_format)
    check_total(work, entry)
    return Bounded(
        work=work,
        device=device.name,
        dtype=entry.name,
        bytes=work.bytes(entry),
        peak=device.peak_flops(entry),
        bandwidth=device.bandwidth,
    )
