"""NVIDIA Volta and Turing."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import (
    CONTEXT,
    PCIE_ONLY,
    TOTAL_MEMORY,
    TOTAL_MEMORY_IN_MESSAGE,
    USUAL_NETWORK,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_DATASHEET = "NVIDIA V100 Tensor Core GPU datasheet (2020), column V100 SXM2"
_DATASHEET_PCIE = "NVIDIA V100 Tensor Core GPU datasheet (2020), column V100 PCIe"
_WHITEPAPER = "NVIDIA Tesla V100 GPU Architecture whitepaper, comparison of Tesla GPUs"

V100_32GB = Device(
    name="V100-SXM2-32GB",
    vendor="NVIDIA",
    architecture="sm70",
    memory_bytes=32_000_000_000,
    usable_bytes=int(31.75 * GIB),
    bandwidth=900e9,
    peak={"fp32": 15.7e12, "fp16": 125e12},
    tdp_watts=300,
    multiprocessors=80,
    scale_up=links.NVLINK_2,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.EDR_HALF,
    context_bytes=310 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "multiprocessors": _WHITEPAPER,
        "scale_up_domain": "NVIDIA DGX-1: 8 GPUs in a hybrid cube mesh, not all adjacent",
        "context_bytes": CONTEXT,
    },
    aliases=("V100", "V100 SXM2", "V100 SXM"),
)

V100_16GB = Device(
    name="V100-SXM2-16GB",
    vendor="NVIDIA",
    architecture="sm70",
    memory_bytes=16_000_000_000,
    usable_bytes=16160 * MIB,
    bandwidth=900e9,
    peak={"fp32": 15.7e12, "fp16": 125e12},
    tdp_watts=300,
    multiprocessors=80,
    scale_up=links.NVLINK_2,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.EDR_HALF,
    context_bytes=310 * MIB,
    source=_DATASHEET,
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (16160 MB; 16130 with older drivers)",
        "multiprocessors": _WHITEPAPER,
        "scale_up_domain": "NVIDIA DGX-1: 8 GPUs in a hybrid cube mesh, not all adjacent",
        "context_bytes": CONTEXT,
    },
    aliases=("V100", "V100 SXM2", "V100 SXM"),
)

V100_PCIE_32GB = Device(
    name="V100-PCIe-32GB",
    vendor="NVIDIA",
    architecture="sm70",
    memory_bytes=32_000_000_000,
    usable_bytes=int(31.75 * GIB),
    bandwidth=900e9,
    peak={"fp32": 14e12, "fp16": 112e12},
    tdp_watts=250,
    multiprocessors=80,
    scale_up=links.PCIE_3,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.EDR_HALF,
    context_bytes=310 * MIB,
    source=f"{_DATASHEET_PCIE}; recalled",
    sources={
        "usable_bytes": "taken to be that of the SXM2 part with as much memory",
        "multiprocessors": _WHITEPAPER,
        "scale_up": PCIE_ONLY,
        "network": "taken to be that of the SXM2 part",
        "context_bytes": CONTEXT,
    },
    aliases=("V100 PCIe",),
)

V100_PCIE_16GB = Device(
    name="V100-PCIe-16GB",
    vendor="NVIDIA",
    architecture="sm70",
    memory_bytes=16_000_000_000,
    usable_bytes=16160 * MIB,
    bandwidth=900e9,
    peak={"fp32": 14e12, "fp16": 112e12},
    tdp_watts=250,
    multiprocessors=80,
    scale_up=links.PCIE_3,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.EDR_HALF,
    context_bytes=310 * MIB,
    source=f"{_DATASHEET_PCIE}; recalled",
    sources={
        "usable_bytes": "taken to be that of the SXM2 part with as much memory",
        "multiprocessors": _WHITEPAPER,
        "scale_up": PCIE_ONLY,
        "network": "taken to be that of the SXM2 part",
        "context_bytes": CONTEXT,
    },
    aliases=("V100 PCIe",),
)

T4 = Device(
    name="T4-16GB",
    vendor="NVIDIA",
    architecture="sm75",
    memory_bytes=16_000_000_000,
    usable_bytes=int(14.74 * GIB),
    bandwidth=320e9,
    peak={"fp32": 8.1e12, "fp16": 65e12, "int8": 130e12},
    tdp_watts=70,
    multiprocessors=40,
    scale_up=links.PCIE_3,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=310 * MIB,
    source="NVIDIA T4 Tensor Core GPU datasheet; recalled",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}; error correction takes a sixteenth",
        "bandwidth": "NVIDIA T4 product brief, PB-09256-001; the datasheet rounds to 300 GB/s",
        "multiprocessors": "NVIDIA Turing GPU Architecture whitepaper, Tesla T4",
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("T4",),
)

VOLTA = (V100_32GB, V100_16GB, V100_PCIE_32GB, V100_PCIE_16GB, T4)
