"""The links between devices, in bytes per second of one direction.

Latencies are those that NCCL 2.21 assumes for one step of a ring with its LL128
protocol (`hwLat` in src/graph/tuning.cc): 1.9 µs on NVLink, 2.5 µs on PCIe and 4.0 µs on
the network. They are a model's constants and not measurements of these parts; for other
makers' links the nearest of them is taken, and the entry says so.

Makers quote a scale-up link in both directions together, so what stands here is half of
what they print. Where a link is one of several that a device has, the entry is what the
device has of it, all its links together.
"""

from __future__ import annotations

from tonnage.cluster.link import Link

_NCCL = "latency: NCCL 2.21 src/graph/tuning.cc, hwLat, ring, LL128"
_NVLINK_LATENCY = 1.9e-6
_PCIE_LATENCY = 2.5e-6
_NETWORK_LATENCY = 4.0e-6
_ICI_LATENCY = 1.0e-6


def _nvlink(name: str, bandwidth: float, source: str, *aliases: str) -> Link:
    return Link(
        name=name,
        bandwidth=bandwidth,
        latency=_NVLINK_LATENCY,
        source=f"{source}; {_NCCL}",
        aliases=aliases,
    )


def _as_nvlink(name: str, bandwidth: float, source: str, *aliases: str) -> Link:
    return Link(
        name=name,
        bandwidth=bandwidth,
        latency=_NVLINK_LATENCY,
        source=f"{source}; latency: taken as NVLink's, no figure found",
        aliases=aliases,
    )


def _pcie(name: str, bandwidth: float, source: str, *aliases: str) -> Link:
    return Link(
        name=name,
        bandwidth=bandwidth,
        latency=_PCIE_LATENCY,
        source=f"{source}; {_NCCL}",
        aliases=aliases,
    )


def _network(name: str, gigabits: float, source: str, *aliases: str) -> Link:
    return Link(
        name=name,
        bandwidth=gigabits * 1e9 / 8,
        latency=_NETWORK_LATENCY,
        source=f"{source}; {_NCCL}",
        aliases=aliases,
    )


def _ici(generation: str, bandwidth: float, source: str) -> Link:
    return Link(
        name=f"ICI {generation}",
        bandwidth=bandwidth,
        latency=_ICI_LATENCY,
        source=(
            f"{source}; all links of the torus together; latency: about 1 µs a hop, "
            "as How To Scale Your Model (jax-ml.github.io/scaling-book) has it"
        ),
    )


NVLINK_2 = _nvlink(
    "NVLink 2",
    150e9,
    "NVIDIA Tesla V100 datasheet: 300 GB/s, both directions of 6 links",
    "NVLink 2 NVSwitch",
)
NVLINK_3 = _nvlink(
    "NVLink 3",
    300e9,
    "NVIDIA A100 datasheet: 600 GB/s, both directions of 12 links",
    "NVLink 3 NVSwitch",
)
NVLINK_3_A800 = _nvlink(
    "NVLink 3 (8 links)",
    200e9,
    "NVIDIA A800 datasheet: 400 GB/s, both directions of 8 links; recalled",
    "NVLink A800",
)
NVLINK_4 = _nvlink(
    "NVLink 4",
    450e9,
    "NVIDIA H100 datasheet: 900 GB/s, both directions of 18 links",
    "NVLink 4 NVSwitch",
)
NVLINK_4_H800 = _nvlink(
    "NVLink 4 (8 links)",
    200e9,
    "400 GB/s in both directions: Insights into DeepSeek-V3, arXiv 2505.09343, section 4.1",
    "NVLink H800",
)
NVLINK_5 = _nvlink(
    "NVLink 5",
    900e9,
    "NVIDIA GB200 NVL72 datasheet: 1.8 TB/s, both directions of 18 links",
    "NVLink 5 NVSwitch",
    "NVL72",
)
INFINITY_FABRIC_2_BRIDGE = _as_nvlink(
    "Infinity Fabric (MI210)",
    150e9,
    (
        "AMD Instinct MI210 datasheet: 3 links of 100 GB/s in both directions, one to each "
        "peer; recalled"
    ),
    "xGMI MI210",
)
INFINITY_FABRIC_2 = _as_nvlink(
    "Infinity Fabric (MI250X)",
    200e9,
    (
        "AMD Instinct MI250X datasheet: 8 external links of 100 GB/s in both directions, of "
        "which a die has half; the other die of the card is reached at 200 GB/s besides, "
        "and a node may use some links for its host; recalled"
    ),
    "xGMI MI250X",
)
INFINITY_FABRIC = _as_nvlink(
    "Infinity Fabric",
    448e9,
    (
        "AMD Instinct MI300X datasheet: 7 links of 128 GB/s in both directions, one to each "
        "peer, so a pair has 64 GB/s a direction"
    ),
    "xGMI",
    "Infinity Fabric MI300X",
)
INFINITY_FABRIC_4 = _as_nvlink(
    "Infinity Fabric (MI350)",
    537.6e9,
    (
        "AMD Instinct MI355X datasheet: 7 links of 153.6 GB/s in both directions, one to each "
        "peer, so a pair has 76.8 GB/s a direction; recalled"
    ),
    "xGMI MI350",
)
UALINK = _as_nvlink(
    "UALink 200G",
    100e9,
    (
        "UALink 200G 1.0 specification: one station of 4 lanes of 200 Gb/s; a device may have"
        " several; recalled"
    ),
    "UALink",
)
HCCS = Link(
    name="HCCS",
    bandwidth=196e9,
    latency=_PCIE_LATENCY,
    source=(
        "392 GB/s in both directions of 7 links, one to each peer, as commonly reported of "
        "the Atlas 800T A2; latency: taken as PCIe's, no figure found"
    ),
    aliases=("HCCS A2",),
)
UNIFIED_BUS = Link(
    name="HCCS (CloudMatrix384)",
    bandwidth=196e9,
    latency=_PCIE_LATENCY,
    source=(
        "Serving Large Language Models on Huawei CloudMatrix384, arXiv 2506.12708: 392 GB/s "
        "in one direction for an NPU of two dies, halved; latency: taken as PCIe's"
    ),
    aliases=("UB", "Unified Bus"),
)
GAUDI_2_LINKS = _network(
    "Gaudi 2 Ethernet, scale-up",
    2100,
    "Intel Gaudi 2 white paper: 21 of its 24 ports of 100 Gb/s lead to the 7 peers; recalled",
)
GAUDI_3_LINKS = _network(
    "Gaudi 3 Ethernet, scale-up",
    4200,
    "Intel Gaudi 3 white paper: 21 of its 24 ports of 200 Gb/s lead to the 7 peers; recalled",
)
ICI_V4 = _ici("v4", 300e9, "Google Cloud TPU v4 documentation: 2400 Gb/s a chip; recalled")
ICI_V5E = _ici("v5e", 200e9, "Google Cloud TPU v5e documentation: 1600 Gb/s a chip; recalled")
ICI_V5P = _ici("v5p", 600e9, "Google Cloud TPU v5p documentation: 1200 GB/s, both directions")
ICI_V6E = _ici("v6e", 400e9, "Google Cloud TPU v6e documentation: 800 GB/s, both directions")
ICI_V7 = _ici("v7", 600e9, "Google Cloud TPU7x documentation: 1200 GB/s, both directions")
NEURONLINK_2 = _as_nvlink(
    "NeuronLink-v2",
    192e9,
    "AWS Neuron documentation, Trn1 architecture: 384 GB/s a chip, taken as both directions",
)
NEURONLINK_3 = _as_nvlink(
    "NeuronLink-v3",
    640e9,
    "weak: 1.28 TB/s a chip of Trainium2, as others quote AWS, taken as both directions",
)
NEURONLINK_4 = _as_nvlink(
    "NeuronLink-v4",
    1280e9,
    "AWS Neuron documentation, Trainium3 architecture: 2.56 TB/s, taken as both directions",
)
THUNDERBOLT_4 = _pcie("Thunderbolt 4", 5e9, "Intel Thunderbolt 4: 40 Gb/s; recalled", "Thunderbolt")

NVLINK_C2C = _as_nvlink(
    "NVLink-C2C",
    450e9,
    "NVIDIA Grace Hopper and GB200 datasheets: 900 GB/s, both directions, between a Grace "
    "processor and a GPU",
    "C2C",
)

PCIE_3 = _pcie("PCIe 3.0 x16", 15.75e9, "PCI-SIG: 8 GT/s, 16 lanes, 128b/130b", "PCIe 3", "PCIe3")
PCIE_4 = _pcie("PCIe 4.0 x16", 31.5e9, "PCI-SIG: 16 GT/s, 16 lanes, 128b/130b", "PCIe 4", "PCIe4")
PCIE_5 = _pcie("PCIe 5.0 x16", 63e9, "PCI-SIG: 32 GT/s, 16 lanes, 128b/130b", "PCIe 5", "PCIe5")

EDR = _network("InfiniBand EDR", 100, "IBTA: 4 lanes of 25 Gb/s, one port a device", "EDR")
EDR_HALF = _network(
    "InfiniBand EDR, half", 50, "NVIDIA DGX-1 datasheet: 4 ports of 100 Gb/s for 8 GPUs"
)
HDR = _network(
    "InfiniBand HDR", 200, "NVIDIA DGX A100 datasheet: 8 ports of 200 Gb/s for 8 GPUs", "HDR"
)
HDR_HALF = _network("InfiniBand HDR, half", 100, "assumed: a port of 200 Gb/s for two PCIe cards")
NDR = _network(
    "InfiniBand NDR", 400, "NVIDIA DGX H100 datasheet: 8 ports of 400 Gb/s for 8 GPUs", "NDR"
)
NDR_HALF = _network(
    "InfiniBand NDR, half", 200, "assumed: a port of 400 Gb/s for two PCIe cards", "NDR200"
)
XDR = _network(
    "InfiniBand XDR",
    800,
    "NVIDIA DGX B300 datasheet: 8 ports of 800 Gb/s for 8 GPUs; recalled",
    "XDR",
)
ROCE_100 = _network("RoCE 100", 100, "one port of 100 Gb/s a device")
ROCE_200 = _network(
    "RoCE 200", 200, "one port of 200 Gb/s on each NPU, as commonly reported of the Atlas 800T A2"
)
ROCE_400 = _network(
    "RoCE 400", 400, "assumed: a port of 400 Gb/s for each GPU, as cloud providers offer it", "RoCE"
)
SLINGSHOT_HALF = _network(
    "Slingshot 11, half",
    100,
    "Frontier user guide (OLCF): 4 ports of 200 Gb/s for 8 dies; recalled",
)
SLINGSHOT = _network("Slingshot 11", 200, "CSCS Alps: 4 ports of 200 Gb/s for 4 GPUs; recalled")
EFA_P4D = _network(
    "EFA (p4d)", 50, "Amazon EC2 p4d.24xlarge: 4 ports of 100 Gb/s for 8 GPUs; recalled", "EFA p4de"
)
EFA_P5 = _network("EFA (p5)", 400, "Amazon EC2 p5.48xlarge: 3200 Gb/s for 8 GPUs; recalled", "EFA")
EFA_P5EN = _network(
    "EFA (p5en)", 400, "Amazon EC2 p5en.48xlarge: 3200 Gb/s (EFAv3) for 8 GPUs; recalled"
)
EFA_TRN1 = _network("EFA (trn1)", 50, "AWS Neuron documentation: trn1.32xlarge, 800 Gb/s for 16")
EFA_TRN1N = _network("EFA (trn1n)", 100, "AWS Neuron documentation: trn1n, 1600 Gb/s for 16")
EFA_TRN2 = _network(
    "EFA (trn2)", 200, "Amazon EC2 trn2.48xlarge: 3200 Gb/s (EFAv3) for 16 chips; recalled"
)
GAUDI_2_PORTS = _network(
    "Gaudi 2 Ethernet, scale-out",
    300,
    "Intel Gaudi 2 white paper: 3 of its 24 ports of 100 Gb/s; recalled",
)
GAUDI_3_PORTS = _network(
    "Gaudi 3 Ethernet, scale-out",
    600,
    "Intel Gaudi 3 white paper: 3 of its 24 ports of 200 Gb/s; recalled",
)
DCN_25 = _network(
    "TPU data center network, 25 Gb/s",
    25,
    "weak: 3.125 GB/s a v5e chip, recalled of How To Scale Your Model, part 2",
)
DCN_50 = _network(
    "TPU data center network, 50 Gb/s",
    50,
    "Google Cloud TPU v5p documentation: 50 Gb/s a chip; for v4 taken to be the same",
    "DCN",
)
DCN_100 = _network(
    "TPU data center network, 100 Gb/s",
    100,
    "Google Cloud TPU7x documentation: 100 Gb/s a chip of v6e and TPU7x",
)
ETHERNET_10 = _network("10 GbE", 10, "IEEE 802.3: one port a device", "Ethernet 10")
ETHERNET_25 = _network("25 GbE", 25, "IEEE 802.3: one port a device", "Ethernet 25")
ETHERNET_100 = _network("100 GbE", 100, "IEEE 802.3: one port a device", "Ethernet 100")
ETHERNET_100_EIGHTH = _network(
    "100 GbE, an eighth", 12.5, "assumed: one port of 100 Gb/s for 8 GPUs, nothing is usual"
)

LINKS: tuple[Link, ...] = (
    *(NVLINK_2, NVLINK_3, NVLINK_3_A800, NVLINK_4, NVLINK_4_H800, NVLINK_5),
    *(INFINITY_FABRIC_2_BRIDGE, INFINITY_FABRIC_2, INFINITY_FABRIC, INFINITY_FABRIC_4),
    *(UALINK, HCCS, UNIFIED_BUS, GAUDI_2_LINKS, GAUDI_3_LINKS),
    *(ICI_V4, ICI_V5E, ICI_V5P, ICI_V6E, ICI_V7),
    *(NEURONLINK_2, NEURONLINK_3, NEURONLINK_4, THUNDERBOLT_4),
    *(NVLINK_C2C, PCIE_3, PCIE_4, PCIE_5),
    *(EDR, EDR_HALF, HDR, HDR_HALF, NDR, NDR_HALF, XDR),
    *(ROCE_100, ROCE_200, ROCE_400, SLINGSHOT, SLINGSHOT_HALF),
    *(EFA_P4D, EFA_P5, EFA_P5EN, EFA_TRN1, EFA_TRN1N, EFA_TRN2),
    *(GAUDI_2_PORTS, GAUDI_3_PORTS, DCN_25, DCN_50, DCN_100),
    *(ETHERNET_10, ETHERNET_25, ETHERNET_100, ETHERNET_100_EIGHTH),
)
