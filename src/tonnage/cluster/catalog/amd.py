"""AMD Instinct, and the APU that people run models on.

An MI250X is a card of two dies, and each of them is a device to PyTorch, with a memory of
its own: the entry is one die, and 8 of them are 4 cards.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import (
    CONTEXT_UNKNOWN,
    ONE,
    TOTAL_MEMORY,
    TOTAL_MEMORY_IN_MESSAGE,
    USUAL_NETWORK,
)
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_CDNA3_PEAK = {
    "fp32": 163.4e12,
    "tf32": 653.7e12,
    "fp16": 1307.4e12,
    "bf16": 1307.4e12,
    "fp8": 2614.9e12,
    "int8": 2614.9e12,
}

MI300X = Device(
    name="MI300X-192GB",
    vendor="AMD",
    architecture="gfx942",
    memory_bytes=192_000_000_000,
    usable_bytes=196592 * MIB,
    bandwidth=5300e9,
    peak=_CDNA3_PEAK,
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

MI325X = Device(
    name="MI325X-256GB",
    vendor="AMD",
    architecture="gfx942",
    memory_bytes=256_000_000_000,
    usable_bytes=int(255.98 * GIB),
    bandwidth=6000e9,
    peak=_CDNA3_PEAK,
    tdp_watts=1000,
    multiprocessors=304,
    scale_up=links.INFINITY_FABRIC,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_400,
    context_bytes=500 * MIB,
    source="AMD Instinct MI325X Accelerator datasheet (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "scale_up": "the same as the MI300X's: 7 links of 128 GB/s in both directions",
        "network": links.ROCE_400.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI325X",),
)

MI350X = Device(
    name="MI350X-288GB",
    vendor="AMD",
    architecture="gfx950",
    memory_bytes=288_000_000_000,
    usable_bytes=int(287.98 * GIB),
    bandwidth=8000e9,
    peak={
        "fp32": 144.2e12,
        "fp16": 2306.9e12,
        "bf16": 2306.9e12,
        "fp8": 4613.7e12,
        "fp6": 9227.5e12,
        "fp4": 9227.5e12,
        "int8": 4613.7e12,
    },
    tdp_watts=1000,
    multiprocessors=256,
    scale_up=links.INFINITY_FABRIC_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_400,
    context_bytes=500 * MIB,
    source=(
        "AMD Instinct MI350X GPU datasheet (dense figures; TF32 is emulated and has none); recalled"
    ),
    sources={
        "usable_bytes": "taken to be that of the MI355X",
        "network": links.ROCE_400.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI350X",),
)

MI355X = Device(
    name="MI355X-288GB",
    vendor="AMD",
    architecture="gfx950",
    memory_bytes=288_000_000_000,
    usable_bytes=int(287.98 * GIB),
    bandwidth=8000e9,
    peak={
        "fp32": 157.3e12,
        "fp16": 2516.6e12,
        "bf16": 2516.6e12,
        "fp8": 5033.2e12,
        "fp6": 10066.3e12,
        "fp4": 10066.3e12,
        "int8": 5033.2e12,
    },
    tdp_watts=1400,
    multiprocessors=256,
    scale_up=links.INFINITY_FABRIC_4,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_400,
    context_bytes=500 * MIB,
    source=(
        "AMD Instinct MI355X GPU datasheet (dense figures; TF32 is emulated and has none); recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "network": links.ROCE_400.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI355X",),
)

MI250X = Device(
    name="MI250X-GCD-64GB",
    vendor="AMD",
    architecture="gfx90a",
    memory_bytes=64_000_000_000,
    usable_bytes=int(63.98 * GIB),
    bandwidth=1638e9,
    peak={"fp32": 47.9e12, "fp16": 191.5e12, "bf16": 191.5e12, "int8": 191.5e12},
    tdp_watts=280,
    multiprocessors=110,
    scale_up=links.INFINITY_FABRIC_2,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.SLINGSHOT_HALF,
    context_bytes=500 * MIB,
    source=(
        "AMD Instinct MI250X Accelerator datasheet, half of the card: one of two dies "
        "(dense); recalled"
    ),
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "peak": "the datasheet, halved; FP32 is that of matrices",
        "tdp_watts": "half of the card's 560 W",
        "gpus_per_node": "4 cards, 8 dies, as in Frontier and LUMI",
        "network": links.SLINGSHOT_HALF.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI250X", "MI250X GCD"),
)

MI210 = Device(
    name="MI210-64GB",
    vendor="AMD",
    architecture="gfx90a",
    memory_bytes=64_000_000_000,
    usable_bytes=int(63.98 * GIB),
    bandwidth=1638e9,
    peak={"fp32": 45.3e12, "fp16": 181e12, "bf16": 181e12, "int8": 181e12},
    tdp_watts=300,
    multiprocessors=104,
    scale_up=links.INFINITY_FABRIC_2_BRIDGE,
    scale_up_domain=4,
    gpus_per_node=4,
    network=links.HDR_HALF,
    context_bytes=500 * MIB,
    source="AMD Instinct MI210 Accelerator datasheet (dense figures); recalled",
    sources={
        "usable_bytes": TOTAL_MEMORY_IN_MESSAGE,
        "peak": "the datasheet; FP32 is that of matrices",
        "gpus_per_node": "a hive of 4 cards joined by bridges",
        "network": "assumed: a port of 200 Gb/s for two cards",
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("MI210",),
)

STRIX_HALO = Device(
    name="Strix-Halo-128GB",
    vendor="AMD",
    architecture="gfx1151",
    memory_bytes=128_000_000_000,
    usable_bytes=96 * GIB,
    bandwidth=256e9,
    peak={"fp32": 29.7e12, "fp16": 59.4e12, "bf16": 59.4e12},
    tdp_watts=55,
    multiprocessors=40,
    scale_up=links.PCIE_4,
    scale_up_domain=1,
    gpus_per_node=1,
    network=links.ETHERNET_10,
    context_bytes=500 * MIB,
    source="AMD Ryzen AI Max+ 395 product page: Radeon 8060S, 128 GB of LPDDR5X-8000; recalled",
    sources={
        "usable_bytes": "the largest share that firmware gives the GPU, as commonly reported",
        "peak": (
            "derived: 40 compute units at 2.9 GHz, 256 FLOP a cycle in FP32 and 512 in FP16 "
            "and BF16"
        ),
        "tdp_watts": "the default; makers choose from 45 to 120 W",
        "gpus_per_node": ONE,
        "scale_up": USUAL_NETWORK,
        "network": USUAL_NETWORK,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Strix Halo", "Ryzen AI Max+ 395", "Radeon 8060S"),
)

AMD = (MI300X, MI325X, MI350X, MI355X, MI250X, MI210, STRIX_HALO)
