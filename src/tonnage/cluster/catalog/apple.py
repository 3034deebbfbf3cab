"""Apple silicon, on which people run models and seldom train them.

Memory is the machine's, and Metal gives the GPU a share of it.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN, ONE, USUAL_NETWORK
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_WORKING_SET = "Metal's recommendedMaxWorkingSetSize, as llama.cpp prints it"

M1 = Device(
    name="M1-7-core-8GB",
    vendor="Apple",
    architecture="m1",
    memory_bytes=8_000_000_000,
    usable_bytes=5461 * MIB,
    bandwidth=68e9,
    peak={},
    multiprocessors=7,
    scale_up=links.THUNDERBOLT_4,
    scale_up_domain=1,
    gpus_per_node=1,
    network=links.ETHERNET_10,
    context_bytes=100 * MIB,
    source="Apple M1, technical specifications of the MacBook Air (2020); recalled",
    sources={
        "usable_bytes": _WORKING_SET,
        "gpus_per_node": ONE,
        "scale_up": "Thunderbolt between machines, as people join them",
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT_UNKNOWN,
        "peak": "Apple publishes no FLOP/s for it",
        "bandwidth": "as commonly reported: 128 bits of LPDDR4X-4266",
    },
    aliases=("M1 7-core GPU", "M1 7-core", "M1"),
)

M1_MAX = Device(
    name="M1-Max-32-core-64GB",
    vendor="Apple",
    architecture="m1",
    memory_bytes=64_000_000_000,
    usable_bytes=48 * GIB,
    bandwidth=400e9,
    peak={"fp32": 10.4e12},
    multiprocessors=32,
    scale_up=links.THUNDERBOLT_4,
    scale_up_domain=1,
    gpus_per_node=1,
    network=links.ETHERNET_10,
    context_bytes=100 * MIB,
    source="Apple press release of October 2021: M1 Max; recalled",
    sources={
        "usable_bytes": _WORKING_SET,
        "gpus_per_node": ONE,
        "scale_up": "Thunderbolt between machines, as people join them",
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT_UNKNOWN,
        "peak": "the press release; it does not say more for FP16",
    },
    aliases=("M1 Max 32-core GPU", "M1 Max 32-core", "M1 Max"),
)

M3_MAX = Device(
    name="M3-Max-40-core-64GB",
    vendor="Apple",
    architecture="m3",
    memory_bytes=64_000_000_000,
    usable_bytes=48 * GIB,
    bandwidth=400e9,
    peak={},
    multiprocessors=40,
    scale_up=links.THUNDERBOLT_4,
    scale_up_domain=1,
    gpus_per_node=1,
    network=links.ETHERNET_10,
    context_bytes=100 * MIB,
    source="Apple M3 Max, technical specifications of the MacBook Pro (2023); recalled",
    sources={
        "usable_bytes": _WORKING_SET,
        "gpus_per_node": ONE,
        "scale_up": "Thunderbolt between machines, as people join them",
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT_UNKNOWN,
        "peak": "Apple publishes no FLOP/s for it",
    },
    aliases=("M3 Max 40-core GPU", "M3 Max 40-core", "M3 Max"),
)

APPLE = (M1, M1_MAX, M3_MAX)
