"""NVIDIA cards on PCIe for servers and workstations, Ampere to Blackwell."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import (
    CONTEXT,
    PCIE_ONLY,
    TOTAL_MEMORY_IN_MESSAGE,
    TOTAL_MEMORY_RECALLED,
    USUAL_8,
    USUAL_NETWORK,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

A10 = Device(
    name="A10-24GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=24_000_000_000,
    usable_bytes=int(22.07 * GIB),
    bandwidth=600e9,
    peak={
        "fp32": 31.2e12,
        "tf32": 62.5e12,
        "fp16": 125e12,
        "bf16": 125e12,
        "int8": 250e12,
    },
    tdp_watts=150,
    multiprocessors=72,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA A10 Tensor Core GPU datasheet (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "as commonly reported by torch.cuda.get_device_properties",
    },
    aliases=("A10",),
)

A10G = Device(
    name="A10G-24GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=24_000_000_000,
    usable_bytes=int(22.19 * GIB),
    bandwidth=600e9,
    peak={"fp32": 35e12, "tf32": 35e12, "fp16": 70e12, "bf16": 70e12, "int8": 140e12},
    tdp_watts=300,
    multiprocessors=80,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="weak: NVIDIA A10G datasheet for Amazon EC2 G5, recalled (dense figures)",
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": "assumed: g5.48xlarge, 100 Gb/s for 8",
        "context_bytes": CONTEXT,
    },
    aliases=("A10G",),
)

A40 = Device(
    name="A40-48GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=48_000_000_000,
    usable_bytes=int(44.43 * GIB),
    bandwidth=696e9,
    peak={
        "fp32": 37.4e12,
        "tf32": 74.8e12,
        "fp16": 149.7e12,
        "bf16": 149.7e12,
        "int8": 299.3e12,
    },
    tdp_watts=300,
    multiprocessors=84,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA A40 datasheet (dense figures); recalled",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_RECALLED}; error correction takes a sixteenth",
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("A40",),
)

RTX_A6000 = Device(
    name="RTX-A6000-48GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=48_000_000_000,
    usable_bytes=int(47.54 * GIB),
    bandwidth=768e9,
    peak={
        "fp32": 38.7e12,
        "tf32": 77.4e12,
        "fp16": 154.8e12,
        "bf16": 154.8e12,
        "int8": 309.7e12,
    },
    tdp_watts=300,
    multiprocessors=84,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA RTX A6000 datasheet; its peaks, with sparsity, are halved; recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "peak": (
            "NVIDIA Ampere GA102 GPU Architecture whitepaper, RTX A6000: dense, with "
            "accumulation in FP32, which this card does at the full rate"
        ),
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("RTX A6000", "A6000"),
)

L4 = Device(
    name="L4-24GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=24_000_000_000,
    usable_bytes=int(22.03 * GIB),
    bandwidth=300e9,
    peak={
        "fp32": 30.3e12,
        "tf32": 60e12,
        "fp16": 121e12,
        "bf16": 121e12,
        "fp8": 242.5e12,
        "int8": 242.5e12,
    },
    tdp_watts=72,
    multiprocessors=58,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA L4 Tensor Core GPU datasheet; its peaks, with sparsity, are halved; recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("L4",),
)

L40 = Device(
    name="L40-48GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=48_000_000_000,
    usable_bytes=int(44.39 * GIB),
    bandwidth=864e9,
    peak={
        "fp32": 90.5e12,
        "tf32": 90.5e12,
        "fp16": 181.05e12,
        "bf16": 181.05e12,
        "fp8": 362e12,
        "int8": 362e12,
    },
    tdp_watts=300,
    multiprocessors=142,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA L40 GPU datasheet (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("L40",),
)

L40S = Device(
    name="L40S-48GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=48_000_000_000,
    usable_bytes=int(44.42 * GIB),
    bandwidth=864e9,
    peak={
        "fp32": 91.6e12,
        "tf32": 183e12,
        "fp16": 362.05e12,
        "bf16": 362.05e12,
        "fp8": 733e12,
        "int8": 733e12,
    },
    tdp_watts=350,
    multiprocessors=142,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA L40S GPU datasheet (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("L40S",),
)

RTX_6000_ADA = Device(
    name="RTX-6000-Ada-48GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=48_000_000_000,
    usable_bytes=int(47.5 * GIB),
    bandwidth=960e9,
    peak={
        "fp32": 91.1e12,
        "tf32": 182.1e12,
        "fp16": 364.2e12,
        "bf16": 364.2e12,
        "fp8": 728.5e12,
        "int8": 728.5e12,
    },
    tdp_watts=300,
    multiprocessors=142,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source=(
        "NVIDIA RTX 6000 Ada Generation datasheet; its peaks, with sparsity, are halved; recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "peak": "FP8: 1457 TFLOPS with sparsity, halved; the others by the rule of the L40S",
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=("RTX 6000 Ada", "6000 Ada", "RTX 6000 Ada Generation"),
)

RTX_PRO_6000 = Device(
    name="RTX-PRO-6000-96GB",
    vendor="NVIDIA",
    architecture="sm120",
    memory_bytes=96_000_000_000,
    usable_bytes=int(94.97 * GIB),
    bandwidth=1792e9,
    peak={
        "fp32": 126e12,
        "tf32": 251.9e12,
        "fp16": 503.8e12,
        "bf16": 503.8e12,
        "fp8": 1007.6e12,
        "fp4": 2015.2e12,
        "int8": 1007.6e12,
    },
    tdp_watts=600,
    multiprocessors=188,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source=(
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition datasheet; its peaks, with "
        "sparsity, are halved; recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "peak": (
            "4030 TOPS of FP4 with sparsity, halved; the others derived: cores times boost "
            "clock, with accumulation in FP32, which this card does at the full rate"
        ),
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=(
        "RTX PRO 6000",
        "RTX 6000 PRO",
        "6000 PRO",
        "PRO 6000",
        "RTX PRO 6000 Blackwell",
        "RTX PRO 6000 Blackwell Workstation Edition",
    ),
)

RTX_PRO_6000_SERVER = Device(
    name="RTX-PRO-6000-Server-96GB",
    vendor="NVIDIA",
    architecture="sm120",
    memory_bytes=96_000_000_000,
    usable_bytes=int(94.97 * GIB),
    bandwidth=1597e9,
    peak={
        "fp32": 120e12,
        "tf32": 250e12,
        "fp16": 500e12,
        "bf16": 500e12,
        "fp8": 1000e12,
        "fp4": 2000e12,
        "int8": 1000e12,
    },
    tdp_watts=600,
    multiprocessors=188,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source=(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet; its peaks, with sparsity, "
        "are halved; it rounds them to whole PFLOPS; recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": PCIE_ONLY,
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "CUDA cores of the datasheet, 128 in each",
    },
    aliases=(
        "RTX PRO 6000 Server",
        "RTX PRO 6000 Server Edition",
        "RTX PRO 6000 Blackwell Server Edition",
        "RTX PRO 6000 SE",
    ),
)

CARDS = (A10, A10G, A40, RTX_A6000, L4, L40, L40S, RTX_6000_ADA, RTX_PRO_6000, RTX_PRO_6000_SERVER)
