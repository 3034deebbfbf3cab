"""NVIDIA Volta."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT, TOTAL_MEMORY, TOTAL_MEMORY_IN_MESSAGE
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_DATASHEET = "NVIDIA V100 Tensor Core GPU datasheet (2020), column V100 SXM2"
_WHITEPAPER = "NVIDIA Tesla V100 GPU Architecture whitepaper, comparison of Tesla GPUs"

V100_32GB = Device(
    name="V100-SXM2-32GB",
    vendor="NVIDIA",
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

VOLTA = (V100_32GB, V100_16GB)
