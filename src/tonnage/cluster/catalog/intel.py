"""Intel Gaudi, whose Ethernet ports are both the scale-up link and the network."""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

GAUDI_2 = Device(
    name="Gaudi-2-96GB",
    vendor="Intel",
    architecture="gaudi2",
    memory_bytes=96_000_000_000,
    usable_bytes=int(94.62 * GIB),
    bandwidth=2450e9,
    peak={"bf16": 432e12, "fp8": 865e12},
    tdp_watts=600,
    multiprocessors=24,
    scale_up=links.GAUDI_2_LINKS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.GAUDI_2_PORTS,
    context_bytes=500 * MIB,
    source="Intel Gaudi 2 AI accelerator white paper (dense figures); recalled",
    sources={
        "usable_bytes": "weak: the limit that torch.hpu.memory_stats shows, recalled",
        "peak": "matrix engines, as the white paper gives them; FP32, TF32 and FP16 are left out",
        "multiprocessors": "tensor processor cores",
        "scale_up": links.GAUDI_2_LINKS.source,
        "network": links.GAUDI_2_PORTS.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Gaudi 2", "HL-225H"),
)

GAUDI_3 = Device(
    name="Gaudi-3-128GB",
    vendor="Intel",
    architecture="gaudi3",
    memory_bytes=128_000_000_000,
    usable_bytes=int(126.54 * GIB),
    bandwidth=3700e9,
    peak={"bf16": 1835e12, "fp8": 1835e12},
    tdp_watts=900,
    multiprocessors=64,
    scale_up=links.GAUDI_3_LINKS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.GAUDI_3_PORTS,
    context_bytes=500 * MIB,
    source="Intel Gaudi 3 AI accelerator white paper, HL-325L (dense figures); recalled",
    sources={
        "usable_bytes": "weak: the limit that torch.hpu.memory_stats shows, recalled",
        "peak": (
            "matrix engines, as the white paper gives them; FP32, TF32 and FP16 are left out:"
            " FP8 is as fast as BF16"
        ),
        "multiprocessors": "tensor processor cores",
        "scale_up": links.GAUDI_3_LINKS.source,
        "network": links.GAUDI_3_PORTS.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Gaudi 3", "HL-325L"),
)

INTEL = (GAUDI_2, GAUDI_3)
