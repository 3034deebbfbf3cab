"""Google TPUs, a chip an entry, as Google sells and counts them.

A v7 chip is two devices to JAX, each with half of the memory. The documentation gives no
power but for v4, and no FP32 or FP16: a TPU multiplies in BF16.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

TPU_V4 = Device(
    name="TPU-v4-32GB",
    vendor="Google",
    architecture="v4",
    memory_bytes=32_000_000_000,
    usable_bytes=int(30.75 * GIB),
    bandwidth=1200e9,
    peak={"bf16": 275e12, "int8": 275e12},
    tdp_watts=192,
    multiprocessors=2,
    scale_up=links.ICI_V4,
    scale_up_domain=4096,
    gpus_per_node=4,
    network=links.DCN_50,
    context_bytes=500 * MIB,
    source="Google Cloud TPU v4 documentation, per chip; recalled",
    sources={
        "usable_bytes": "the capacity that XLA names where a program does not fit",
        "multiprocessors": "TensorCores",
        "scale_up_domain": (
            "the chips of a pod, each next to 4 or 6 others in a torus: what is far apart "
            "shares links, which is not modelled"
        ),
        "gpus_per_node": "the chips of one virtual machine in slices of several",
        "network": links.DCN_50.source,
        "context_bytes": CONTEXT_UNKNOWN,
        "tdp_watts": "the largest power measured, which stands where others give a limit",
    },
    aliases=("TPU v4", "TPU v4p"),
)

TPU_V5E = Device(
    name="TPU-v5e-16GB",
    vendor="Google",
    architecture="v5e",
    memory_bytes=16_000_000_000,
    usable_bytes=int(15.75 * GIB),
    bandwidth=819e9,
    peak={"bf16": 197e12, "int8": 393e12},
    multiprocessors=1,
    scale_up=links.ICI_V5E,
    scale_up_domain=256,
    gpus_per_node=4,
    network=links.DCN_25,
    context_bytes=500 * MIB,
    source="Google Cloud TPU v5e documentation, per chip; recalled",
    sources={
        "usable_bytes": "the capacity that XLA names where a program does not fit",
        "multiprocessors": "TensorCores",
        "scale_up_domain": (
            "the chips of a pod, each next to 4 or 6 others in a torus: what is far apart "
            "shares links, which is not modelled"
        ),
        "gpus_per_node": "the chips of one virtual machine in slices of several",
        "network": links.DCN_25.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("TPU v5e", "TPU v5 lite", "TPU v5litepod"),
)

TPU_V5P = Device(
    name="TPU-v5p-95GB",
    vendor="Google",
    architecture="v5p",
    memory_bytes=95_000_000_000,
    usable_bytes=int(95.74 * GIB),
    bandwidth=2765e9,
    peak={"bf16": 459e12, "fp8": 459e12, "int8": 918e12},
    multiprocessors=2,
    scale_up=links.ICI_V5P,
    scale_up_domain=8960,
    gpus_per_node=4,
    network=links.DCN_50,
    context_bytes=500 * MIB,
    source="Google Cloud TPU v5p documentation, per chip",
    sources={
        "usable_bytes": "the capacity that XLA names where a program does not fit",
        "multiprocessors": "TensorCores",
        "scale_up_domain": (
            "the chips of a pod, each next to 4 or 6 others in a torus: what is far apart "
            "shares links, which is not modelled"
        ),
        "gpus_per_node": "the chips of one virtual machine in slices of several",
        "network": links.DCN_50.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("TPU v5p", "TPU v5"),
)

TPU_V6E = Device(
    name="TPU-v6e-32GB",
    vendor="Google",
    architecture="v6e",
    memory_bytes=32_000_000_000,
    usable_bytes=int(31.25 * GIB),
    bandwidth=1638e9,
    peak={"bf16": 918e12, "fp8": 918e12, "int8": 1836e12},
    multiprocessors=1,
    scale_up=links.ICI_V6E,
    scale_up_domain=256,
    gpus_per_node=4,
    network=links.DCN_100,
    context_bytes=500 * MIB,
    source="Google Cloud TPU v6e documentation, per chip",
    sources={
        "usable_bytes": "the capacity that XLA names where a program does not fit",
        "multiprocessors": "TensorCores",
        "scale_up_domain": (
            "the chips of a pod, each next to 4 or 6 others in a torus: what is far apart "
            "shares links, which is not modelled"
        ),
        "gpus_per_node": "the chips of one virtual machine in slices of several",
        "network": links.DCN_100.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("TPU v6e", "TPU v6", "Trillium", "TPU v6 lite"),
)

TPU_V7 = Device(
    name="TPU-v7-192GB",
    vendor="Google",
    architecture="v7",
    memory_bytes=192_000_000_000,
    usable_bytes=int(189.5 * GIB),
    bandwidth=7380e9,
    peak={"bf16": 2307e12, "fp8": 4614e12},
    multiprocessors=2,
    scale_up=links.ICI_V7,
    scale_up_domain=9216,
    gpus_per_node=4,
    network=links.DCN_100,
    context_bytes=500 * MIB,
    source="Google Cloud TPU7x documentation, per chip",
    sources={
        "usable_bytes": "twice the 94.75 GiB that XLA names for half a chip, a device to JAX",
        "multiprocessors": "TensorCores",
        "scale_up_domain": (
            "the chips of a pod, each next to 4 or 6 others in a torus: what is far apart "
            "shares links, which is not modelled"
        ),
        "gpus_per_node": "the chips of one virtual machine in slices of several",
        "network": links.DCN_100.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("TPU v7", "TPU v7x", "TPU7x", "Ironwood", "TPU Ironwood"),
)

TPU = (TPU_V4, TPU_V5E, TPU_V5P, TPU_V6E, TPU_V7)
