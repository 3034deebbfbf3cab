"""NVIDIA Hopper."""

from __future__ import annotations

from tonnage.cluster.catalog import hosts, links
from tonnage.cluster.catalog.notes import (
    CONTEXT,
    PCIE_ONLY,
    TOTAL_MEMORY,
    TOTAL_MEMORY_IN_MESSAGE,
    TOTAL_MEMORY_RECALLED,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_WHITEPAPER = (
    "NVIDIA H100 Tensor Core GPU Architecture whitepaper, V1.04, comparison of A100 and H100 "
    "(dense figures)"
)
_DATASHEET = "NVIDIA H100 Tensor Core GPU datasheet; its peaks, with sparsity, are halved"
_SXM_PEAK = {
    "fp32": 66.9e12,
    "tf32": 494.7e12,
    "fp16": 989.4e12,
    "bf16": 989.4e12,
    "fp8": 1978.9e12,
    "int8": 1978.9e12,
}
_NVL_PEAK = {
    "fp32": 60e12,
    "tf32": 417.5e12,
    "fp16": 835.5e12,
    "bf16": 835.5e12,
    "fp8": 1670.5e12,
    "int8": 1670.5e12,
}

H100_SXM = Device(
    name="H100-SXM5-80GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=80_000_000_000,
    usable_bytes=81090 * MIB,
    bandwidth=3350e9,
    peak=_SXM_PEAK,
    tdp_watts=700,
    multiprocessors=132,
    scale_up=links.NVLINK_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=520 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (81082 to 81090 MB; nvidia-smi shows 81559 MiB)",
        "peak": _WHITEPAPER,
        "multiprocessors": _WHITEPAPER,
        "context_bytes": CONTEXT,
    },
    aliases=("H100", "H100 SXM", "H100 SXM5", "H100 HBM3"),
)

H100_PCIE = Device(
    name="H100-PCIe-80GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=80_000_000_000,
    usable_bytes=81008 * MIB,
    bandwidth=2000e9,
    peak={
        "fp32": 51.2e12,
        "tf32": 378e12,
        "fp16": 756e12,
        "bf16": 756e12,
        "fp8": 1513e12,
        "int8": 1513e12,
    },
    tdp_watts=350,
    multiprocessors=114,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR_HALF,
    context_bytes=520 * MIB,
    source=_WHITEPAPER,
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (81008 MB)",
        "scale_up": PCIE_ONLY,
        "context_bytes": CONTEXT,
    },
    aliases=("H100 PCIe",),
)

H100_NVL = Device(
    name="H100-NVL-94GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=94_000_000_000,
    usable_bytes=int(93.10 * GIB),
    bandwidth=3900e9,
    peak=_NVL_PEAK,
    tdp_watts=400,
    multiprocessors=132,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR_HALF,
    context_bytes=520 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}; nvidia-smi shows 95830 MiB",
        "multiprocessors": "as commonly reported; not in the datasheet",
        "scale_up": PCIE_ONLY,
        "context_bytes": CONTEXT,
    },
    aliases=("H100 NVL", "H100"),
)

H100_96GB = Device(
    name="H100-SXM5-96GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=96_000_000_000,
    usable_bytes=int(95.04 * GIB),
    bandwidth=2400e9,
    peak=_SXM_PEAK,
    tdp_watts=500,
    multiprocessors=132,
    scale_up=links.NVLINK_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=520 * MIB,
    source=(
        "the part with HBM2e that Meta's published benchmarks use: Context Parallelism for "
        "Scalable Million-Token Inference, arXiv 2411.01783 (96 GB, 2.4 TB/s)"
    ),
    sources={
        "usable_bytes": (
            "weak: 95.04 GiB as quoted from TorchTitan logs; nvidia-smi shows 97871 MiB on "
            "other parts with 96 GB"
        ),
        "peak": (
            f"that of the 80 GB part ({_WHITEPAPER}); TorchTitan's notes say the true value "
            "is lower and not known, for the power limit is lower"
        ),
        "tdp_watts": "weak: as commonly reported, not published",
        "multiprocessors": "taken to be those of the 80 GB part",
        "context_bytes": CONTEXT,
    },
    aliases=("H100", "H100 SXM", "H100 SXM5", "H100 HBM2e"),
)

H800_SXM = Device(
    name="H800-SXM5-80GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=80_000_000_000,
    usable_bytes=81090 * MIB,
    bandwidth=3350e9,
    peak=_SXM_PEAK,
    tdp_watts=700,
    multiprocessors=132,
    scale_up=links.NVLINK_4_H800,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=520 * MIB,
    source="taken to be those of the H100 SXM, of which it is the export version",
    sources={
        "scale_up": links.NVLINK_4_H800.source,
        "network": "8 ports of 400 Gb/s for 8 GPUs: arXiv 2505.09343, section 4",
        "context_bytes": CONTEXT,
    },
    aliases=("H800", "H800 SXM", "H800 SXM5"),
)

H200_SXM = Device(
    name="H200-SXM-141GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=141_000_000_000,
    usable_bytes=143156 * MIB,
    bandwidth=4800e9,
    peak=_SXM_PEAK,
    tdp_watts=700,
    multiprocessors=132,
    scale_up=links.NVLINK_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=530 * MIB,
    source="NVIDIA H200 Tensor Core GPU datasheet",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (143156 MB; nvidia-smi shows 143771 MiB)",
        "peak": f"the same as the H100 SXM's: {_WHITEPAPER}",
        "multiprocessors": TOTAL_MEMORY,
        "context_bytes": CONTEXT,
    },
    aliases=("H200", "H200 SXM", "H200 HBM3e"),
)

H200_NVL = Device(
    name="H200-NVL-141GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=141_000_000_000,
    usable_bytes=143156 * MIB,
    bandwidth=4800e9,
    peak=_NVL_PEAK,
    tdp_watts=600,
    multiprocessors=132,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR_HALF,
    context_bytes=530 * MIB,
    source="NVIDIA H200 Tensor Core GPU datasheet; its peaks, with sparsity, are halved; recalled",
    sources={
        "usable_bytes": "taken to be that of the SXM part",
        "multiprocessors": "as commonly reported; not in the datasheet",
        "scale_up": "PCIe to the host; the NVLink bridge between four cards is not modelled",
        "context_bytes": CONTEXT,
    },
    aliases=("H200 NVL",),
)

H20 = Device(
    name="H20-SXM5-96GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=96_000_000_000,
    usable_bytes=int(95.00 * GIB),
    bandwidth=4000e9,
    peak={
        "fp32": 44e12,
        "tf32": 74e12,
        "fp16": 148e12,
        "bf16": 148e12,
        "fp8": 296e12,
        "int8": 296e12,
    },
    tdp_watts=400,
    multiprocessors=78,
    scale_up=links.NVLINK_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.NDR,
    context_bytes=520 * MIB,
    source="weak: NVIDIA HGX H20 product brief, as press and clouds repeat it (dense figures)",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_RECALLED}; nvidia-smi shows 97871 MiB",
        "scale_up": f"not cut, unlike the H800's: {links.NVLINK_4.source}",
        "network": "assumed: that of an H100 node",
        "context_bytes": CONTEXT,
    },
    aliases=("H20", "H20 SXM", "H20 SXM5"),
)

GH200 = Device(
    name="GH200-96GB",
    vendor="NVIDIA",
    architecture="sm90",
    memory_bytes=96_000_000_000,
    usable_bytes=int(94.50 * GIB),
    bandwidth=4000e9,
    peak=_SXM_PEAK,
    tdp_watts=1000,
    multiprocessors=132,
    scale_up=links.NVLINK_4,
    scale_up_domain=4,
    gpus_per_node=4,
    network=links.SLINGSHOT,
    host=hosts.GRACE_HOPPER,
    context_bytes=520 * MIB,
    source=(
        "NVIDIA GH200 Grace Hopper Superchip datasheet; its peaks, with sparsity, are halved;"
        " recalled"
    ),
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_RECALLED}; nvidia-smi shows 97871 MiB",
        "peak": f"the same as the H100 SXM's: {_WHITEPAPER}",
        "tdp_watts": "the datasheet: 450 to 1000 W for processor, GPU and memory together",
        "multiprocessors": "as commonly reported; not in the datasheet",
        "gpus_per_node": "four, as in Alps and JUPITER; machines with one are common too",
        "scale_up_domain": "the four of a node, 6 NVLinks to each peer",
        "network": links.SLINGSHOT.source,
        "context_bytes": CONTEXT,
    },
    aliases=("GH200", "GH200 480GB", "Grace Hopper"),
)

HOPPER = (
    *(H100_SXM, H100_PCIE, H100_NVL, H100_96GB, H800_SXM),
    *(H200_SXM, H200_NVL, H20, GH200),
)
