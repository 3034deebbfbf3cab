"""The device that this process runs on, as the catalog has it or as it can be told."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

from tonnage.cluster import Device, Link, find_device, find_link
from tonnage.errors import InputError
from tonnage.ledger.operation import Collective
from tonnage.timing.calibration import HEAD, CollectiveTime, Measurements
from tonnage.timing.collective import wire_bytes

CPU_INFO: Final = Path("/proc/cpuinfo")


def torch_device(name: str | None) -> torch.device:
    """The device of that name, or the machine's accelerator, or else its processor.

    Raises:
        InputError: PyTorch knows no such device, or has none here.
    """
    if name is None:
        found = torch.accelerator.current_accelerator()
        return torch.device("cpu") if found is None else _of_this_rank(found)
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            field="on",
            value=name,
            problem=f"is not a device that PyTorch has here: {str(error).splitlines()[0][:100]}",
            accepted="cpu, or cuda and the like where there is one",
        ) from None
    return device


def _of_this_rank(accelerator: torch.device) -> torch.device:
    index = int(os.environ.get("LOCAL_RANK", "0"))
    torch.accelerator.set_device_index(index)
    return torch.device(accelerator.type, index)


def catalogued(device: torch.device) -> Device | None:
    """The catalog's entry for a device, where it has one."""
    try:
        return find_device(device_name(device))
    except InputError:
        return None


def device_name(device: torch.device) -> str:
    """What the driver or the operating system calls a device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    if device.type != "cpu":
        return str(device.type)
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()[:100]
    return platform.processor() or platform.machine() or "CPU"


def self_described(device: torch.device, found: Measurements) -> Device:
    """A device that is in no catalog, whose peaks are the best that was measured on it.

    Raises:
        InputError: its memory cannot be told.
    """
    memory = _memory_bytes(device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        processors = int(properties.multi_processor_count)
    else:
        processors = torch.get_num_threads()
    bandwidth = max(row.moved / row.seconds for row in found.traffic)
    return Device(
        name=device_name(device),
        vendor="unknown",
        architecture="",
        memory_bytes=memory,
        usable_bytes=memory,
        bandwidth=bandwidth,
        peak=best_rates(found),
        multiprocessors=processors,
        scale_up=self_described_link(found.collectives),
        scale_up_domain=8,
        gpus_per_node=8,
        network=find_link("100 GbE, an eighth"),
        context_bytes=0,
        source="no published figures: peaks and bandwidths are the best that was measured",
        sources={},
    )


def best_rates(found: Measurements) -> dict[str, float]:
    """FLOP/s that the fastest product or attention kernel of each format reached."""
    best: dict[str, float] = {}
    for name, products in found.products.items():
        best[name] = max(2.0 * r.rows * r.columns * r.depth / r.seconds for r in products)
    for name, kernels in found.attention.items():
        for row in kernels:
            work = 2.0 * row.batch * row.heads * row.seq**2 * HEAD
            work *= 1.0 if row.phase == "forward" else 2.5
            best[name] = max(best.get(name, 0.0), work / row.seconds)
    return best


def self_described_link(rows: Sequence[CollectiveTime]) -> Link:
    """A link whose bandwidth is the best that a collective reached; PCIe where none was run."""
    if not rows:
        return find_link("PCIe 4")
    best = max(_wire(row) / row.seconds for row in rows)
    latency = min(row.seconds for row in rows)
    return Link(name="measured", bandwidth=best, latency=latency, source="measured")


def _wire(row: CollectiveTime) -> float:
    collective = Collective(kind=row.kind, axis="dp", bytes=row.bytes, phase="forward")
    return float(wire_bytes(collective, row.ranks))


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        raise InputError(
            field="device_file",
            value="",
            problem="is missing: the memory of this device cannot be told",
            accepted="a device file that says it",
        ) from None
