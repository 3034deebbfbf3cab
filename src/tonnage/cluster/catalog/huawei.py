"""Huawei Ascend.

Huawei publishes systems and not chips. The Atlas 800T A2 white paper offers NPUs of 313
and of 376 TFLOPS at FP16; that these are the 910B3 and the 910B2 is common knowledge
(20 and 24 AI cores of 8192 FLOP a cycle at 1.91 GHz) and stands in no data sheet. A bare
"910B" is taken to be the 910B3.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_WHITEPAPER = "Huawei Atlas 800T A2 technical white paper, per NPU"
_SOURCES = {
    "usable_bytes": "weak: total capacity in torch_npu's out-of-memory messages (60.97 GiB)",
    "bandwidth": "weak: 1.6 TB/s as commonly reported of the 910B2 and 910B3",
    "peak": f"{_WHITEPAPER}, for FP16; BF16 as commonly reported; FP32 and INT8 not found",
    "tdp_watts": "weak: as commonly reported",
    "multiprocessors": "weak: AI cores as commonly reported",
    "scale_up": links.HCCS.source,
    "network": links.ROCE_200.source,
    "context_bytes": CONTEXT_UNKNOWN,
}

ASCEND_910B3 = Device(
    name="Ascend-910B3-64GB",
    vendor="Huawei",
    memory_bytes=64_000_000_000,
    usable_bytes=int(60.97 * GIB),
    bandwidth=1600e9,
    peak={"fp16": 313e12, "bf16": 313e12},
    tdp_watts=400,
    multiprocessors=20,
    scale_up=links.HCCS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_200,
    context_bytes=500 * MIB,
    source=_WHITEPAPER,
    sources=_SOURCES,
    aliases=("Ascend 910B3", "910B3", "Ascend 910B", "910B"),
)

ASCEND_910B2 = Device(
    name="Ascend-910B2-64GB",
    vendor="Huawei",
    memory_bytes=64_000_000_000,
    usable_bytes=int(60.97 * GIB),
    bandwidth=1600e9,
    peak={"fp16": 376e12, "bf16": 376e12},
    tdp_watts=400,
    multiprocessors=24,
    scale_up=links.HCCS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_200,
    context_bytes=500 * MIB,
    source=_WHITEPAPER,
    sources=_SOURCES,
    aliases=("Ascend 910B2", "910B2"),
)

HUAWEI = (ASCEND_910B3, ASCEND_910B2)
