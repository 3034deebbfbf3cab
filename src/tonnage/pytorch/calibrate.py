"""The constants of this process's device, measured and fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import distributed

from tonnage.cluster import Device
from tonnage.pytorch.here import catalogued, self_described, torch_device
from tonnage.pytorch.links import Links, launched_by_torchrun, process_group
from tonnage.pytorch.stopwatch import Stopwatch
from tonnage.pytorch.sweep import Sweep
from tonnage.timing.calibration import Calibration, CollectiveTime, Measurements, calibrate

ACCELERATOR_ROW = 0.2
"""Seconds of a row of calls on an accelerator: long enough for its power limit to act."""


def calibrate_here(
    *,
    on: str | None = None,
    base: Device | None = None,
    formats: Sequence[str] = (),
    slowest: float,
    seen: Callable[[], None] = lambda: None,
) -> Calibration | None:
    """Measure this process's device, and its link where torchrun has started several.

    Args:
        on: a device as PyTorch names it; None: the accelerator, or else the processor.
        base: the device as its maker publishes it; None: the catalog's, or else the best
            that is measured stands for what is not published.
        formats: number formats; none: bf16 on an accelerator and fp32 on a processor.
        slowest: seconds of the longest call.
        seen: called after each measurement.

    Returns:
        The calibration; None on ranks other than the first, which help and have no answer.

    Raises:
        InputError: PyTorch has no such device, or a format has no peak on it.
        NotModelledError: a format or a launch that is not measured.
    """
    device = torch_device(on)
    names = list(formats) or ["fp32" if device.type == "cpu" else "bf16"]
    if not launched_by_torchrun():
        return _fitted(device, base, _alone(device, names, slowest, seen))
    with process_group(device) as rank:
        found = _alone(device, names, slowest, seen) if rank == 0 else Measurements()
        distributed.barrier()
        links = Links(device=device, slowest=slowest, seen=seen).measure()
        return _fitted(device, base, found, links) if rank == 0 else None


def _alone(
    device: torch.device, formats: Sequence[str], slowest: float, seen: Callable[[], None]
) -> Measurements:
    least = ACCELERATOR_ROW if device.type != "cpu" else Stopwatch.least
    clock = Stopwatch(device=device, least=min(least, slowest))
    return Sweep(device=device, clock=clock, slowest=slowest, seen=seen).measure(formats)


def _fitted(
    device: torch.device,
    base: Device | None,
    found: Measurements,
    links: Sequence[CollectiveTime] = (),
) -> Calibration:
    found = dataclasses.replace(found, collectives=links)
    return calibrate(base or catalogued(device) or self_described(device, found), found)
