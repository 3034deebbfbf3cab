"""NVIDIA cards for desktops and laptops that people train on."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import (
    CONTEXT,
    FP32_ACCUMULATION,
    ONE,
    TOTAL_MEMORY_IN_MESSAGE,
    TOTAL_MEMORY_RECALLED,
    USUAL_8,
    USUAL_NETWORK,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

RTX_4090 = Device(
    name="RTX-4090-24GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=24_000_000_000,
    usable_bytes=int(23.64 * GIB),
    bandwidth=1008e9,
    peak={
        "fp32": 82.6e12,
        "tf32": 82.6e12,
        "fp16": 165.2e12,
        "bf16": 165.2e12,
        "fp8": 330.3e12,
        "int8": 660.6e12,
    },
    tdp_watts=450,
    multiprocessors=128,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA Ada GPU Architecture whitepaper, appendices (dense figures)",
    sources={
        "usable_bytes": (
            "total capacity in PyTorch's out-of-memory messages (two decimals) on Linux; "
            "nvidia-smi shows 24564 MiB"
        ),
        "peak": FP32_ACCUMULATION,
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 4090", "4090"),
)

RTX_3070 = Device(
    name="RTX-3070-8GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=8_000_000_000,
    usable_bytes=int(7.79 * GIB),
    bandwidth=448e9,
    peak={
        "fp32": 20.3e12,
        "tf32": 20.3e12,
        "fp16": 40.6e12,
        "bf16": 40.6e12,
        "int8": 162.6e12,
    },
    tdp_watts=220,
    multiprocessors=46,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source=(
        "NVIDIA Ampere GA102 GPU Architecture whitepaper, comparison of GeForce cards (dense "
        "figures); recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": FP32_ACCUMULATION,
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 3070", "3070"),
)

RTX_3080_TI = Device(
    name="RTX-3080-Ti-12GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=12_000_000_000,
    usable_bytes=int(11.76 * GIB),
    bandwidth=912e9,
    peak={
        "fp32": 34.1e12,
        "tf32": 34.1e12,
        "fp16": 68.2e12,
        "bf16": 68.2e12,
        "int8": 272.8e12,
    },
    tdp_watts=350,
    multiprocessors=80,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA GeForce RTX 3080 Ti product page; recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": (
            "derived: cores times boost clock of the GeForce page, by the rule of its "
            "siblings in the whitepaper; accumulation in FP32"
        ),
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "10240 CUDA cores, 128 in each",
    },
    aliases=("RTX 3080 Ti", "3080 Ti"),
)

RTX_3090 = Device(
    name="RTX-3090-24GB",
    vendor="NVIDIA",
    architecture="sm86",
    memory_bytes=24_000_000_000,
    usable_bytes=int(23.69 * GIB),
    bandwidth=936e9,
    peak={
        "fp32": 35.6e12,
        "tf32": 35.6e12,
        "fp16": 71e12,
        "bf16": 71e12,
        "int8": 284e12,
    },
    tdp_watts=350,
    multiprocessors=82,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source=(
        "NVIDIA Ampere GA102 GPU Architecture whitepaper, comparison of GeForce cards (dense "
        "figures); recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": FP32_ACCUMULATION,
        "scale_up": "PCIe to the host; the NVLink bridge between two cards is not modelled",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 3090", "3090"),
)

RTX_4070_TI = Device(
    name="RTX-4070-Ti-12GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=12_000_000_000,
    usable_bytes=int(11.73 * GIB),
    bandwidth=504e9,
    peak={
        "fp32": 40.1e12,
        "tf32": 40.1e12,
        "fp16": 80.2e12,
        "bf16": 80.2e12,
        "fp8": 160.4e12,
        "int8": 320.7e12,
    },
    tdp_watts=285,
    multiprocessors=60,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA Ada GPU Architecture whitepaper, appendices (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": FP32_ACCUMULATION,
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 4070 Ti", "4070 Ti"),
)

RTX_4070_TI_SUPER = Device(
    name="RTX-4070-Ti-SUPER-16GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=16_000_000_000,
    usable_bytes=int(15.7 * GIB),
    bandwidth=672e9,
    peak={
        "fp32": 44.1e12,
        "tf32": 44.1e12,
        "fp16": 88.2e12,
        "bf16": 88.2e12,
        "fp8": 176.4e12,
        "int8": 352.8e12,
    },
    tdp_watts=285,
    multiprocessors=66,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA GeForce RTX 4070 Ti SUPER product page; recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": (
            "derived: cores times boost clock of the GeForce page, by the rule of its "
            "siblings in the whitepaper; accumulation in FP32"
        ),
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
        "multiprocessors": "8448 CUDA cores, 128 in each",
    },
    aliases=("RTX 4070 Ti SUPER", "4070 Ti SUPER"),
)

RTX_4080 = Device(
    name="RTX-4080-16GB",
    vendor="NVIDIA",
    architecture="sm89",
    memory_bytes=16_000_000_000,
    usable_bytes=int(15.7 * GIB),
    bandwidth=717e9,
    peak={
        "fp32": 48.7e12,
        "tf32": 48.7e12,
        "fp16": 97.5e12,
        "bf16": 97.5e12,
        "fp8": 194.9e12,
        "int8": 389.9e12,
    },
    tdp_watts=320,
    multiprocessors=76,
    scale_up=links.PCIE_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA Ada GPU Architecture whitepaper, appendices (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": FP32_ACCUMULATION,
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 4080", "4080"),
)

RTX_5090 = Device(
    name="RTX-5090-32GB",
    vendor="NVIDIA",
    architecture="sm120",
    memory_bytes=32_000_000_000,
    usable_bytes=int(31.36 * GIB),
    bandwidth=1792e9,
    peak={
        "fp32": 104.8e12,
        "tf32": 104.8e12,
        "fp16": 209.5e12,
        "bf16": 209.5e12,
        "fp8": 419e12,
        "fp4": 1676e12,
        "int8": 838e12,
    },
    tdp_watts=575,
    multiprocessors=170,
    scale_up=links.PCIE_5,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ETHERNET_100_EIGHTH,
    context_bytes=390 * MIB,
    source="NVIDIA RTX Blackwell GPU Architecture whitepaper, appendix (dense figures); recalled",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE}: 31.34 to 31.39 GiB over drivers",
        "peak": FP32_ACCUMULATION,
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": USUAL_8,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 5090", "5090"),
)

RTX_5070_LAPTOP = Device(
    name="RTX-5070-Laptop-8GB",
    vendor="NVIDIA",
    architecture="sm120",
    memory_bytes=8_000_000_000,
    usable_bytes=int(7.53 * GIB),
    bandwidth=384e9,
    peak={"fp16": 49.9e12, "bf16": 49.9e12, "fp4": 399e12},
    tdp_watts=100,
    multiprocessors=36,
    scale_up=links.PCIE_4,
    scale_up_domain=1,
    gpus_per_node=1,
    network=links.ETHERNET_10,
    context_bytes=390 * MIB,
    source="NVIDIA GeForce RTX 5070 Laptop GPU page; recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_RECALLED,
        "peak": (
            "FP4: 798 TOPS with sparsity, halved; FP16 and BF16 derived: an eighth of FP4 "
            "with accumulation in FP32, as in the RTX 5090's whitepaper; it falls with the "
            "power that the laptop allows"
        ),
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": ONE,
        "context_bytes": CONTEXT,
        "tdp_watts": "50 to 100 W, as the laptop's maker chooses",
        "multiprocessors": "4608 CUDA cores, 128 in each",
        "network": USUAL_NETWORK,
    },
    aliases=("RTX 5070 Laptop", "RTX 5070 Mobile"),
)

GEFORCE = (
    RTX_4090,
    RTX_3070,
    RTX_3080_TI,
    RTX_3090,
    RTX_4070_TI,
    RTX_4070_TI_SUPER,
    RTX_4080,
    RTX_5090,
    RTX_5070_LAPTOP,
)
