"""NVIDIA Ampere for data centres."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import (
    CONTEXT,
    PCIE_ONLY,
    TOTAL_MEMORY,
    TOTAL_MEMORY_IN_MESSAGE,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_DATASHEET = "NVIDIA A100 Tensor Core GPU datasheet (June 2021); dense figures as published"
_SXM_40_DATASHEET = "NVIDIA A100 Tensor Core GPU datasheet (2020); dense figures as published"
_PEAK = {"fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12, "int8": 624e12}
_MULTIPROCESSORS = (
    "NVIDIA A100 Tensor Core GPU Architecture whitepaper, comparison of data-center GPUs"
)

A100_SXM_80GB = Device(
    name="A100-SXM4-80GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=80_000_000_000,
    usable_bytes=85_093_777_408,
    bandwidth=2039e9,
    peak=_PEAK,
    tdp_watts=400,
    multiprocessors=108,
    scale_up=links.NVLINK_3,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR,
    context_bytes=420 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (79.25 GiB; 79.15 to 79.35 over drivers)",
        "multiprocessors": _MULTIPROCESSORS,
        "context_bytes": CONTEXT,
    },
    aliases=("A100", "A100 SXM", "A100 SXM4"),
)

A100_SXM_40GB = Device(
    name="A100-SXM4-40GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=40_000_000_000,
    usable_bytes=42_298_834_944,
    bandwidth=1555e9,
    peak=_PEAK,
    tdp_watts=400,
    multiprocessors=108,
    scale_up=links.NVLINK_3,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR,
    context_bytes=420 * MIB,
    source=_SXM_40_DATASHEET,
    sources={
        "usable_bytes": "deviceQuery with CUDA 12.2, as published; 40536 MiB with driver 450",
        "multiprocessors": _MULTIPROCESSORS,
        "context_bytes": CONTEXT,
    },
    aliases=("A100", "A100 SXM", "A100 SXM4"),
)

A100_PCIE_80GB = Device(
    name="A100-PCIe-80GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=80_000_000_000,
    usable_bytes=81049 * MIB,
    bandwidth=1935e9,
    peak=_PEAK,
    tdp_watts=300,
    multiprocessors=108,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR_HALF,
    context_bytes=420 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": "mixbench on CUDA 12.3 (github.com/ekondis/mixbench/issues/47)",
        "multiprocessors": _MULTIPROCESSORS,
        "scale_up": PCIE_ONLY,
        "context_bytes": CONTEXT,
    },
    aliases=("A100 PCIe",),
)

A100_PCIE_40GB = Device(
    name="A100-PCIe-40GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=40_000_000_000,
    usable_bytes=42_298_834_944,
    bandwidth=1555e9,
    peak=_PEAK,
    tdp_watts=250,
    multiprocessors=108,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR_HALF,
    context_bytes=420 * MIB,
    source="NVIDIA A100 PCIe 40 GB product brief, PB-10137-001",
    sources={
        "usable_bytes": "taken to be that of the SXM4 part with as much memory",
        "peak": _SXM_40_DATASHEET,
        "multiprocessors": _MULTIPROCESSORS,
        "scale_up": PCIE_ONLY,
        "context_bytes": CONTEXT,
    },
    aliases=("A100 PCIe",),
)

A800_SXM_80GB = Device(
    name="A800-SXM4-80GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=80_000_000_000,
    usable_bytes=85_093_777_408,
    bandwidth=2039e9,
    peak=_PEAK,
    tdp_watts=400,
    multiprocessors=108,
    scale_up=links.NVLINK_3_A800,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR,
    context_bytes=420 * MIB,
    source="taken to be those of the A100 SXM, of which it is the export version",
    sources={"scale_up": links.NVLINK_3_A800.source, "context_bytes": CONTEXT},
    aliases=("A800", "A800 SXM", "A800 SXM4"),
)

A800_PCIE_80GB = Device(
    name="A800-PCIe-80GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=80_000_000_000,
    usable_bytes=81049 * MIB,
    bandwidth=1935e9,
    peak=_PEAK,
    tdp_watts=300,
    multiprocessors=108,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR_HALF,
    context_bytes=420 * MIB,
    source="taken to be those of the A100 PCIe, of which it is the export version",
    sources={"scale_up": PCIE_ONLY, "context_bytes": CONTEXT},
    aliases=("A800 PCIe",),
)

A30 = Device(
    name="A30-24GB",
    vendor="NVIDIA",
    architecture="sm80",
    memory_bytes=24_000_000_000,
    usable_bytes=int(23.53 * GIB),
    bandwidth=933e9,
    peak={"fp32": 10.3e12, "tf32": 82e12, "fp16": 165e12, "bf16": 165e12, "int8": 330e12},
    tdp_watts=165,
    multiprocessors=56,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.HDR_HALF,
    context_bytes=420 * MIB,
    source="NVIDIA A30 Tensor Core GPU datasheet (dense figures); recalled",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE} (github.com/google/RB-Modulation/issues/5)",
        "multiprocessors": "3584 CUDA cores, 64 in each, as commonly reported",
        "scale_up": PCIE_ONLY,
        "context_bytes": CONTEXT,
    },
    aliases=("A30",),
)

AMPERE = (
    A100_SXM_80GB,
    A100_SXM_40GB,
    A100_PCIE_80GB,
    A100_PCIE_40GB,
    A800_SXM_80GB,
    A800_PCIE_80GB,
    A30,
)
