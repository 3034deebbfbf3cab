"""NVIDIA cards for desktops that people train on."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT, TOTAL_MEMORY_IN_MESSAGE
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

RTX_4090 = Device(
    name="RTX-4090-24GB",
    vendor="NVIDIA",
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
    source="NVIDIA Ada GPU Architecture whitepaper, appendix A (dense figures)",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY_IN_MESSAGE} on Linux; nvidia-smi shows 24564 MiB",
        "peak": (
            "NVIDIA Ada GPU Architecture whitepaper, appendix A: dense, with accumulation in "
            "FP32, which is half the rate of accumulation in FP16 that is quoted elsewhere"
        ),
        "scale_up": "no NVLink; the driver offers no peer-to-peer copies, so bytes cross the host",
        "gpus_per_node": "assumed: the most that a common server holds",
        "network": "assumed: nothing is usual",
        "context_bytes": CONTEXT,
    },
    aliases=("RTX 4090", "4090"),
)

GEFORCE = (RTX_4090,)
