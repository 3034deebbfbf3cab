"""What a device sustains inside a step, of what its maker publishes."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.cluster import Device
from tonnage.dtype import dtype
from tonnage.errors import InputError
from tonnage.timing import constants


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """What a person says about rates, over what is fitted.

    Attributes:
        compute: share of dense peak FLOP/s that products reach; None: `sustained_flops`.
    """

    compute: float | None = None

    def __post_init__(self) -> None:
        """Check that it is a share."""
        value = self.compute
        if value is None or (isinstance(value, int | float) and 0.0 < value <= 1.0):
            return
        raise InputError(
            field="efficiency.compute",
            value=value,
            problem="is not a share of peak",
            accepted="over 0, at most 1",
        )


STATED = Efficiency()
"""Nothing said: as fitted."""


def generation(device: Device) -> str:
    """The generation whose constants hold for a device; empty where it has none.

    A device of another maker, or of a generation that nobody has measured, takes Hopper's,
    the first of its kind of process and power density; older ones take Ampere's.
    """
    name = device.architecture.rstrip("af")
    name = constants.GENERATIONS.get(name, name)
    if name in constants.PICOJOULE_PER_FLOP:
        return name
    old = name.startswith("sm") and name[2:].isdigit() and int(name[2:]) < 89
    return "sm80" if old else "sm90"


def measured(device: Device, number_format: str, name: str) -> float | None:
    """A constant that was measured on this device in this format, where one was."""
    return device.measured.get(f"{dtype(number_format).peak}.{name}")


def sustained_flops(
    device: Device, number_format: str, efficiency: Efficiency = STATED, *, field: str = "precision"
) -> float:
    """FLOP/s of matrix products that a device keeps up: ``min(0.814·P, TDP / ε)``.

    Past a power limit the clock falls until the products' energy fits, so that the newest
    devices reach the smallest shares of their peaks. A share that was measured on the device
    itself stands in for both.

    Raises:
        InputError: the device has no published peak for the format.
    """
    peak = device.peak_flops(number_format, field=field)
    if efficiency.compute is not None:
        return peak * efficiency.compute
    if (share := measured(device, number_format, "product_share")) is not None:
        return peak * share
    ceiling = peak * constants.SUSTAINED_SHARE
    energies = constants.PICOJOULE_PER_FLOP.get(generation(device), {})
    energy = energies.get({"fp16": "bf16"}.get(kind := dtype(number_format).peak, kind))
    if energy is None or device.tdp_watts is None:
        return ceiling
    return min(ceiling, device.tdp_watts / (energy * 1e-12))


def attention_flops(device: Device, number_format: str) -> float:
    """FLOP/s that flash attention's shares are of: dense peak, less where power is short.

    Raises:
        InputError: the device has no published peak for the format.
    """
    peak = device.peak_flops(number_format, field="precision")
    usual = constants.FLASH_WATTS.get(generation(device))
    if usual is None or device.tdp_watts is None:
        return peak
    return peak * min(1.0, device.tdp_watts / (usual * peak / 1e12))
