"""AWS Trainium, a chip an entry.

To PyTorch a device is a NeuronCore, or a pair of them: a chip is several ranks. AWS counts
and publishes chips, and no power.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

TRAINIUM_2 = Device(
    name="Trainium2-96GB",
    vendor="AWS",
    architecture="NeuronCore-v3",
    memory_bytes=96_000_000_000,
    usable_bytes=96 * GIB,
    bandwidth=2900e9,
    peak={
        "fp32": 181e12,
        "tf32": 667e12,
        "fp16": 667e12,
        "bf16": 667e12,
        "fp8": 1299e12,
    },
    multiprocessors=8,
    scale_up=links.NEURONLINK_3,
    scale_up_domain=16,
    gpus_per_node=16,
    network=links.EFA_TRN2,
    context_bytes=500 * MIB,
    source="AWS Neuron documentation, Trainium2 architecture, per chip (dense figures)",
    sources={
        "usable_bytes": "assumed: all of it; no figure found",
        "multiprocessors": "NeuronCores",
        "network": links.EFA_TRN2.source,
        "context_bytes": CONTEXT_UNKNOWN,
        "scale_up": links.NEURONLINK_3.source,
        "scale_up_domain": "an instance of 16 in a torus; an UltraServer joins four of them",
    },
    aliases=("Trainium2", "Trn2"),
)

TRAINIUM_1 = Device(
    name="Trainium1-32GB",
    vendor="AWS",
    architecture="NeuronCore-v2",
    memory_bytes=32_000_000_000,
    usable_bytes=32 * GIB,
    bandwidth=880e9,
    peak={
        "fp32": 47.5e12,
        "tf32": 190e12,
        "fp16": 190e12,
        "bf16": 190e12,
        "fp8": 190e12,
        "int8": 380e12,
    },
    multiprocessors=2,
    scale_up=links.NEURONLINK_2,
    scale_up_domain=16,
    gpus_per_node=16,
    network=links.EFA_TRN1,
    context_bytes=500 * MIB,
    source="AWS Neuron documentation, Trainium architecture, per chip (dense figures)",
    sources={
        "usable_bytes": "assumed: all of it; no figure found",
        "multiprocessors": "NeuronCores",
        "network": links.EFA_TRN1.source,
        "context_bytes": CONTEXT_UNKNOWN,
        "bandwidth": "the documentation: 820 GiB/s",
        "scale_up": links.NEURONLINK_2.source,
    },
    aliases=("Trainium1", "Trainium", "Trn1"),
)

TRAINIUM_3 = Device(
    name="Trainium3-144GB",
    vendor="AWS",
    architecture="NeuronCore-v4",
    memory_bytes=144_000_000_000,
    usable_bytes=144 * GIB,
    bandwidth=4900e9,
    peak={
        "fp32": 183e12,
        "tf32": 671e12,
        "fp16": 671e12,
        "bf16": 671e12,
        "fp8": 2517e12,
        "fp4": 2517e12,
    },
    multiprocessors=8,
    scale_up=links.NEURONLINK_4,
    scale_up_domain=144,
    gpus_per_node=16,
    network=links.EFA_TRN2,
    context_bytes=500 * MIB,
    source="AWS Neuron documentation, Trainium3 architecture, per chip (dense figures)",
    sources={
        "usable_bytes": "assumed: all of it; no figure found",
        "multiprocessors": "NeuronCores",
        "network": "weak: taken to be that of Trainium2",
        "context_bytes": CONTEXT_UNKNOWN,
        "peak": "the documentation; FP8 and FP4 are MXFP8 and MXFP4",
        "scale_up": links.NEURONLINK_4.source,
        "scale_up_domain": "weak: an UltraServer of 144, as announced",
        "gpus_per_node": "weak: taken to be that of Trainium2",
    },
    aliases=("Trainium3", "Trn3"),
)

AWS = (TRAINIUM_2, TRAINIUM_1, TRAINIUM_3)
