"""Roofs, and the points below them: what every picture of a roofline is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tonnage.cluster import Device
from tonnage.dtype import DType
from tonnage.roofline.points import Point


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A device's roofline in one number format (Williams et al., CACM 52(4), 2009).

    Attributes:
        device: the device's name.
        peak: dense FLOP/s.
        bandwidth: bytes a second of its memory.
    """

    device: str
    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the peak takes over from the memory."""
        return self.peak / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """The most FLOP/s at an intensity."""
        return min(self.peak, intensity * self.bandwidth)

    def bound(self, point: Point) -> Literal["memory", "compute"]:
        """Which of the two is the limit of an operation."""
        return "compute" if point.intensity >= self.ridge else "memory"

    def seconds(self, point: Point) -> float:
        """The least time of an operation, once."""
        return max(point.flops / self.peak, point.bytes / self.bandwidth)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Roofs and points.

    Attributes:
        dtype: the number format's name.
        roofs: one a device.
        points: the operations of models.
    """

    dtype: str
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    @property
    def intensities(self) -> tuple[float, float]:
        """The range of intensities to draw: a decade and more around ridges and points."""
        seen = [roof.ridge for roof in self.roofs] + [point.intensity for point in self.points]
        return min(0.3, *seen) / 2, max(seen) * 8

    @property
    def rates(self) -> tuple[float, float]:
        """The range of FLOP/s to draw."""
        low = min(roof.attainable(self.intensities[0]) for roof in self.roofs)
        return low, max(roof.peak for roof in self.roofs) * 2


def chart(devices: Sequence[Device], number_format: DType, points: Sequence[Point]) -> Chart:
    """The roofs of devices and the points of models.

    Raises:
        InputError: a device has no published peak in the format.
    """
    roofs = tuple(
        Roof(
            device=device.name,
            peak=device.peak_flops(number_format),
            bandwidth=device.bandwidth,
        )
        for device in devices
    )
    return Chart(dtype=number_format.name, roofs=roofs, points=tuple(points))
