"""The links that devices come with, in bytes per second of one direction.

Latencies are those that NCCL 2.21 assumes for one step of a ring with its LL128
protocol (`hwLat` in src/graph/tuning.cc): 1.9 µs on NVLink, 2.5 µs on PCIe and 4.0 µs on
the network. They are a model's constants and not measurements of these parts.
"""

from __future__ import annotations

from tonnage.cluster.link import Link

_NCCL = "latency: NCCL 2.21 src/graph/tuning.cc, hwLat, ring, LL128"
_NVLINK_LATENCY = 1.9e-6
_PCIE_LATENCY = 2.5e-6
_NETWORK_LATENCY = 4.0e-6


def _nvlink(name: str, bandwidth: float, source: str) -> Link:
    return Link(
        name=name, bandwidth=bandwidth, latency=_NVLINK_LATENCY, source=f"{source}; {_NCCL}"
    )


def _pcie(name: str, bandwidth: float, source: str) -> Link:
    return Link(name=name, bandwidth=bandwidth, latency=_PCIE_LATENCY, source=f"{source}; {_NCCL}")


def _network(name: str, gigabits: float, source: str) -> Link:
    return Link(
        name=name,
        bandwidth=gigabits * 1e9 / 8,
        latency=_NETWORK_LATENCY,
        source=f"{source}; {_NCCL}",
    )


NVLINK_2 = _nvlink(
    "NVLink 2", 150e9, "NVIDIA Tesla V100 datasheet: 300 GB/s, both directions of 6 links"
)
NVLINK_3 = _nvlink(
    "NVLink 3", 300e9, "NVIDIA A100 datasheet: 600 GB/s, both directions of 12 links"
)
NVLINK_4 = _nvlink(
    "NVLink 4", 450e9, "NVIDIA H100 datasheet: 900 GB/s, both directions of 18 links"
)
NVLINK_4_H800 = _nvlink(
    "NVLink 4 (8 links)",
    200e9,
    "400 GB/s in both directions: Insights into DeepSeek-V3, arXiv 2505.09343, section 4.1",
)
NVLINK_5 = _nvlink(
    "NVLink 5", 900e9, "NVIDIA GB200 NVL72 datasheet: 1.8 TB/s, both directions of 18 links"
)
INFINITY_FABRIC = Link(
    name="Infinity Fabric",
    bandwidth=448e9,
    latency=_NVLINK_LATENCY,
    source=(
        "AMD Instinct MI300X datasheet: 7 links of 128 GB/s in both directions, one to each "
        "peer, so a pair has 64 GB/s a direction; latency: taken as NVLink's, no figure found"
    ),
)
HCCS = Link(
    name="HCCS",
    bandwidth=196e9,
    latency=_PCIE_LATENCY,
    source=(
        "392 GB/s in both directions of 7 links, one to each peer, as commonly reported of "
        "the Atlas 800T A2; latency: taken as PCIe's, no figure found"
    ),
)

PCIE_3 = _pcie("PCIe 3.0 x16", 15.75e9, "PCI-SIG: 8 GT/s, 16 lanes, 128b/130b")
PCIE_4 = _pcie("PCIe 4.0 x16", 31.5e9, "PCI-SIG: 16 GT/s, 16 lanes, 128b/130b")
PCIE_5 = _pcie("PCIe 5.0 x16", 63e9, "PCI-SIG: 32 GT/s, 16 lanes, 128b/130b")

EDR_HALF = _network(
    "InfiniBand EDR, half", 50, "NVIDIA DGX-1 datasheet: 4 ports of 100 Gb/s for 8 GPUs"
)
ETHERNET_100_EIGHTH = _network(
    "100 GbE, an eighth", 12.5, "assumed: one port of 100 Gb/s for 8 GPUs, nothing is usual"
)
HDR = _network("InfiniBand HDR", 200, "NVIDIA DGX A100 datasheet: 8 ports of 200 Gb/s for 8 GPUs")
HDR_HALF = _network("InfiniBand HDR, half", 100, "assumed: a port of 200 Gb/s for two PCIe cards")
NDR = _network("InfiniBand NDR", 400, "NVIDIA DGX H100 datasheet: 8 ports of 400 Gb/s for 8 GPUs")
NDR_HALF = _network("InfiniBand NDR, half", 200, "assumed: a port of 400 Gb/s for two PCIe cards")
ROCE_200 = _network(
    "RoCE 200", 200, "one port of 200 Gb/s on each NPU, as commonly reported of the Atlas 800T A2"
)
ROCE_400 = _network(
    "RoCE 400", 400, "assumed: a port of 400 Gb/s for each GPU, as cloud providers offer it"
)
