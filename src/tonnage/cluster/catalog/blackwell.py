"""NVIDIA Blackwell and Blackwell Ultra for data centres."""

from __future__ import annotations

from tonnage.cluster.catalog import hosts, links
from tonnage.cluster.catalog.notes import CONTEXT, TOTAL_MEMORY, TOTAL_MEMORY_IN_MESSAGE
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

B200 = Device(
    name="B200-SXM-180GB",
    vendor="NVIDIA",
    architecture="sm100",
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
    source=(
        "NVIDIA DGX B200 datasheet and HGX B200 page, an eighth of the system; its peaks, "
        "with sparsity, are halved"
    ),
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

B100 = Device(
    name="B100-SXM-192GB",
    vendor="NVIDIA",
    architecture="sm100",
    memory_bytes=192_000_000_000,
    usable_bytes=182642 * MIB,
    bandwidth=8000e9,
    peak={
        "fp32": 60e12,
        "tf32": 875e12,
        "fp16": 1750e12,
        "bf16": 1750e12,
        "fp8": 3500e12,
        "fp6": 3500e12,
        "fp4": 7000e12,
        "int8": 3500e12,
    },
    tdp_watts=700,
    scale_up=links.NVLINK_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=600 * MIB,
    source=(
        "NVIDIA Blackwell Architecture Technical Brief, HGX B100, an eighth of the system; "
        "its peaks, with sparsity, are halved; recalled"
    ),
    sources={
        "usable_bytes": "taken to be that of the B200, whose memory it has",
        "context_bytes": CONTEXT,
    },
    aliases=("B100", "B100 SXM", "HGX B100"),
)

GB200 = Device(
    name="GB200-NVL72-186GB",
    vendor="NVIDIA",
    architecture="sm100",
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
    host=hosts.GRACE_BLACKWELL,
    context_bytes=600 * MIB,
    source="NVIDIA GB200 NVL72 datasheet, a 72nd of the rack; its peaks, with sparsity, are halved",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}; nvidia-smi shows 189471 MiB",
        "tdp_watts": "nvidia-smi's power limit, as commonly reported",
        "multiprocessors": "as commonly reported by torch.cuda.get_device_properties",
        "network": "NVIDIA DGX GB200 datasheet: 72 ports of 400 Gb/s for 72 GPUs",
        "context_bytes": CONTEXT,
    },
    aliases=("GB200", "GB200 NVL72", "GB200 192GB"),
)

B300 = Device(
    name="B300-SXM-288GB",
    vendor="NVIDIA",
    architecture="sm103",
    memory_bytes=288_000_000_000,
    usable_bytes=int(267.69 * GIB),
    bandwidth=8000e9,
    peak={
        "fp32": 75e12,
        "tf32": 1125e12,
        "fp16": 2250e12,
        "bf16": 2250e12,
        "fp8": 4500e12,
        "fp6": 4500e12,
        "fp4": 13500e12,
    },
    tdp_watts=1100,
    multiprocessors=148,
    scale_up=links.NVLINK_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.XDR,
    context_bytes=600 * MIB,
    source=(
        "NVIDIA HGX B300 page, an eighth of the system; its peaks, with sparsity, are halved;"
        " recalled"
    ),
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}; nvidia-smi shows 275040 MiB",
        "peak": (
            "NVIDIA HGX B300 page, an eighth; FP4 is given dense too, 108 PFLOPS for eight "
            "(105 in its first edition), the others are halved; INT8 is left out, for its "
            "editions disagree"
        ),
        "tdp_watts": "weak: as commonly reported",
        "multiprocessors": "as commonly reported by torch.cuda.get_device_properties",
        "context_bytes": CONTEXT,
    },
    aliases=("B300", "B300 SXM", "B300 SXM6", "B300 SXM6 AC", "HGX B300", "DGX B300", "B300 270GB"),
)

GB300 = Device(
    name="GB300-NVL72-288GB",
    vendor="NVIDIA",
    architecture="sm103",
    memory_bytes=288_000_000_000,
    usable_bytes=int(276.5 * GIB),
    bandwidth=8000e9,
    peak={
        "fp32": 80e12,
        "tf32": 1250e12,
        "fp16": 2500e12,
        "bf16": 2500e12,
        "fp8": 5000e12,
        "fp6": 5000e12,
        "fp4": 15000e12,
    },
    tdp_watts=1400,
    multiprocessors=152,
    scale_up=links.NVLINK_5,
    scale_up_domain=72,
    gpus_per_node=4,
    network=links.XDR,
    host=hosts.GRACE_BLACKWELL,
    context_bytes=600 * MIB,
    source=(
        "NVIDIA GB300 NVL72 page, a 72nd of the rack; its peaks, with sparsity, are halved; "
        "recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "peak": (
            "NVIDIA GB300 NVL72 page, a 72nd; FP4 is given dense too, 1080 PFLOPS a rack, the"
            " others are halved; FP32 taken to be the GB200's, as the page rounds it; INT8 is"
            " left out, for it is not given dense"
        ),
        "multiprocessors": "taken to be those of the GB200",
        "network": "NVIDIA GB300 NVL72 page: a ConnectX-8 of 800 Gb/s for each GPU",
        "context_bytes": CONTEXT,
    },
    aliases=("GB300", "GB300 NVL72", "GB300 279GB"),
)

BLACKWELL = (B200, B100, GB200, B300, GB300)
