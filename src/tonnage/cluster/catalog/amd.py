"""AMD Instinct."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN, TOTAL_MEMORY
from tonnage.cluster.device import Device
from tonnage.quantity import MIB

MI300X = Device(
    name="MI300X-192GB",
    vendor="AMD",
    memory_bytes=192_000_000_000,
    usable_bytes=196592 * MIB,
    bandwidth=5300e9,
    peak={
        "fp32": 163.4e12,
        "tf32": 653.7e12,
        "fp16": 1307.4e12,
        "bf16": 1307.4e12,
        "fp8": 2614.9e12,
        "int8": 2614.9e12,
    },
    tdp_watts=750,
    multiprocessors=304,
    scale_up=links.INFINITY_FABRIC,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_400,
    context_bytes=500 * MIB,
    source="AMD Instinct MI300X Accelerator datasheet (dense figures)",
    sources={
        "usable_bytes": f"{TOTAL_MEMORY} (196592 MB)",
        "network": links.ROCE_400.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI300X",),
)

AMD = (MI300X,)
