"""Huawei Ascend.

Huawei publishes systems and not chips. The Atlas 800T A2 white paper offers NPUs of 313
and of 376 TFLOPS at FP16; that these are the 910B3 and the 910B2 is common knowledge
(20 and 24 AI cores of 8192 FLOP a cycle at 1.91 GHz) and stands in no data sheet. A bare
"910B" is taken to be the 910B3.

A 910C is two dies, and each of them is a device to torch_npu, with a memory of its own: the
entry is one die, and a node of 8 NPUs has 16.
"""

from __future__ import annotations

from tonnage.cluster.catalog import links
from tonnage.cluster.catalog.notes import CONTEXT_UNKNOWN
from tonnage.cluster.device import Device
from tonnage.quantity import GIB, MIB

_WHITEPAPER = "Huawei Atlas 800T A2 technical white paper, per NPU"
_CLOUDMATRIX = (
    "Serving Large Language Models on Huawei CloudMatrix384, arXiv 2506.12708, half of an NPU"
)

ASCEND_910B3 = Device(
    name="Ascend-910B3-64GB",
    vendor="Huawei",
    architecture="Ascend910B3",
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
    sources={
        "usable_bytes": "total capacity in torch_npu's out-of-memory messages (60.96 or 60.97 GiB)",
        "bandwidth": "weak: 1.6 TB/s as commonly reported of the 910B2 and 910B3",
        "peak": f"{_WHITEPAPER}, for FP16; BF16 as commonly reported; FP32 and INT8 not found",
        "tdp_watts": "weak: as commonly reported",
        "multiprocessors": "weak: AI cores as commonly reported",
        "scale_up": links.HCCS.source,
        "network": links.ROCE_200.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Ascend 910B3", "910B3", "Ascend 910B", "910B"),
)

ASCEND_910B2 = Device(
    name="Ascend-910B2-64GB",
    vendor="Huawei",
    architecture="Ascend910B2",
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
    sources={
        "usable_bytes": (
            "total capacity in torch_npu's out-of-memory messages (60.96 GiB: "
            "github.com/vllm-project/vllm-ascend/issues/1127)"
        ),
        "bandwidth": "weak: 1.6 TB/s as commonly reported of the 910B2 and 910B3",
        "peak": f"{_WHITEPAPER}, for FP16; BF16 as commonly reported; FP32 and INT8 not found",
        "tdp_watts": "weak: as commonly reported",
        "multiprocessors": "weak: AI cores as commonly reported",
        "scale_up": links.HCCS.source,
        "network": links.ROCE_200.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Ascend 910B2", "910B2"),
)

ASCEND_910B1 = Device(
    name="Ascend-910B1-64GB",
    vendor="Huawei",
    architecture="Ascend910B1",
    memory_bytes=64_000_000_000,
    usable_bytes=int(60.97 * GIB),
    bandwidth=1600e9,
    peak={"fp16": 400e12, "bf16": 400e12},
    tdp_watts=400,
    multiprocessors=24,
    scale_up=links.HCCS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_200,
    context_bytes=500 * MIB,
    source="weak: no Huawei document was at hand; as commonly reported",
    sources={
        "usable_bytes": "taken to be that of the 910B2",
        "bandwidth": "weak: taken to be that of the 910B2",
        "peak": "weak: as commonly reported, of FP16; FP32 and INT8 not found",
        "tdp_watts": "weak: as commonly reported",
        "multiprocessors": "weak: AI cores as commonly reported",
        "scale_up": links.HCCS.source,
        "network": links.ROCE_200.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Ascend 910B1", "910B1"),
)

ASCEND_910B4 = Device(
    name="Ascend-910B4-32GB",
    vendor="Huawei",
    architecture="Ascend910B4",
    memory_bytes=32_000_000_000,
    usable_bytes=int(29.5 * GIB),
    bandwidth=800e9,
    peak={"fp16": 280e12, "bf16": 280e12},
    tdp_watts=400,
    multiprocessors=20,
    scale_up=links.HCCS,
    scale_up_domain=8,
    gpus_per_node=8,
    network=links.ROCE_200,
    context_bytes=500 * MIB,
    source="weak: no Huawei document was at hand; as commonly reported",
    sources={
        "usable_bytes": "weak: recalled of torch_npu's out-of-memory messages",
        "bandwidth": "weak: as commonly reported",
        "peak": "weak: as commonly reported, of FP16; FP32 and INT8 not found",
        "tdp_watts": "weak: taken to be that of the 910B3",
        "multiprocessors": "weak: AI cores as commonly reported",
        "scale_up": links.HCCS.source,
        "network": links.ROCE_200.source,
        "context_bytes": CONTEXT_UNKNOWN,
    },
    aliases=("Ascend 910B4", "910B4"),
)

ASCEND_910C = Device(
    name="Ascend-910C-die-64GB",
    vendor="Huawei",
    architecture="Ascend910C",
    memory_bytes=64_000_000_000,
    usable_bytes=int(61.27 * GIB),
    bandwidth=1600e9,
    peak={"fp16": 376e12, "bf16": 376e12},
    multiprocessors=24,
    scale_up=links.UNIFIED_BUS,
    scale_up_domain=768,
    gpus_per_node=16,
    network=links.ROCE_200,
    context_bytes=500 * MIB,
    source=_CLOUDMATRIX,
    sources={
        "usable_bytes": (
            "total capacity in torch_npu's out-of-memory messages (61.27 GiB: "
            "github.com/sgl-project/sglang/issues/29838)"
        ),
        "bandwidth": "the paper: 3.2 TB/s for two dies",
        "peak": (
            "the paper: 752 TFLOPS in BF16 for two dies; FP16 taken to be the same; its INT8 "
            "is left out, as not read there"
        ),
        "multiprocessors": "weak: AI cores as commonly reported",
        "scale_up": links.UNIFIED_BUS.source,
        "network": "the paper: a port of 200 Gb/s for each die",
        "context_bytes": CONTEXT_UNKNOWN,
        "scale_up_domain": "the 384 NPUs of a CloudMatrix384, two dies each",
        "gpus_per_node": "8 NPUs, two dies each",
    },
    aliases=("Ascend 910C", "910C", "Ascend 910C die", "Ascend A3", "Atlas A3"),
)

HUAWEI = (ASCEND_910B3, ASCEND_910B2, ASCEND_910B1, ASCEND_910B4, ASCEND_910C)
