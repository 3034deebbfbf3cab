"""NVIDIA Blackwell for data centres."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT, TOTAL_MEMORY, TOTAL_MEMORY_IN_MESSAGE
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_HALVED = "its peaks, with sparsity, are halved"

B200 = Device(
    name="B200-SXM-180GB",
    vendor="NVIDIA",
    memory_bytes=180_000_000_000,
    usable_bytes=182642 * MIB,
    bandwidth=7672e9,
    peak={
        "fp32": 75e12,
        "tf32": 1125e12,
        "fp16": 2250e12,
        "bf16": 2250e12,
        "fp8": 4500e12,
        "fp6": 4500e12,
        "fp4": 9000e12,
        "int8": 4500e12,
    },
    tdp_watts=1000,
    multiprocessors=148,
    scale_up=links.NVLINK_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=600 * MIB,
    source=f"NVIDIA DGX B200 datasheet and HGX B200 page, an eighth of the system; {_HALVED}",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (182631 to 182642 MB; nvidia-smi shows 183359 MiB)",
        "bandwidth": (
            "7680 bits at 3996 MHz, double rate, as the driver reports it "
            "(github.com/pytorch/ao/pull/4002); the datasheet says 64 TB/s for eight"
        ),
        "multiprocessors": TOTAL_MEMORY,
        "context_bytes": CONTEXT,
    },
    aliases=("B200", "B200 SXM", "B200 192GB", "B200 SXM 192GB", "HGX B200", "DGX B200"),
)

GB200 = Device(
    name="GB200-NVL72-186GB",
    vendor="NVIDIA",
    memory_bytes=186_000_000_000,
    usable_bytes=int(184.31 * GIB),
    bandwidth=8000e9,
    peak={
        "fp32": 80e12,
        "tf32": 1250e12,
        "fp16": 2500e12,
        "bf16": 2500e12,
        "fp8": 5000e12,
        "fp6": 5000e12,
        "fp4": 10000e12,
        "int8": 5000e12,
    },
    tdp_watts=1200,
    multiprocessors=152,
    scale_up=links.NVLINK_5,
    scale_up_domain=72,
    gpus_per_node=4,
    network=links.NDR,
    context_bytes=600 * MIB,
    source=f"NVIDIA GB200 NVL72 datasheet, a 72nd of the rack; {_HALVED}",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}; nvidia-smi shows 189471 MiB",
        "tdp_watts": "nvidia-smi's power limit, as commonly reported",
        "multiprocessors": "as commonly reported by torch.cuda.get_device_properties",
        "network": "NVIDIA DGX GB200 datasheet: 72 ports of 400 Gb/s for 72 GPUs",
        "context_bytes": CONTEXT,
    },
    aliases=("GB200", "GB200 NVL72", "GB200 192GB"),
)

BLACKWELL = (B200, GB200)
