"""The hosts that devices are usually found in.

A maker of devices sells no host, so what stands here is a common machine of each time: two
sockets with every channel of memory filled, as in NVIDIA's own (DGX). It is assumed, and an
estimate that copies to host memory says so. Two accelerators behind one switch share the 16
lanes that lead from it to a processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tonnage.cluster.catalog import links
from tonnage.cluster.host import Host

if TYPE_CHECKING:
    from tonnage.cluster.cluster import Cluster
    from tonnage.cluster.device import Device

GIGABYTE: Final = 1e9

TWO_XEONS_DDR4 = Host(
    link=links.PCIE_3,
    sharing=2,
    memory=256 * GIGABYTE,
    source="NVIDIA DGX-2: two Xeon Platinum 8168 of 6 channels of DDR4-2666; two GPUs of an "
    "8-GPU machine behind a switch, 12 GB/s shared (arXiv 2104.07857, figure 2b); recalled",
)
TWO_ROMES = Host(
    link=links.PCIE_4,
    sharing=2,
    memory=409.6 * GIGABYTE,
    source="NVIDIA DGX A100: two EPYC 7742 of 8 channels of DDR4-3200; two GPUs behind each of "
    "4 switches; recalled",
)
TWO_XEONS_DDR5 = Host(
    link=links.PCIE_5,
    sharing=1,
    memory=614.4 * GIGABYTE,
    source="NVIDIA DGX H100: two Xeon Platinum 8480C of 8 channels of DDR5-4800; 64 GB/s for "
    "each GPU, as Azure's ND H100 v5 states it; recalled",
)
TWO_GENOAS = Host(
    link=links.PCIE_5,
    sharing=1,
    memory=921.6 * GIGABYTE,
    source="AMD Instinct MI300X platform: each accelerator has 16 lanes of PCI Express 5; two "
    "EPYC 9004 of 12 channels of DDR5-4800; recalled",
)
ONE_CARD = Host(
    link=links.PCIE_4,
    sharing=1,
    memory=409.6 * GIGABYTE,
    source="assumed: 16 lanes for each card, and two sockets of 8 channels of DDR4-3200",
)
GRACE_HOPPER = Host(
    link=links.NVLINK_C2C,
    sharing=1,
    memory=512 * GIGABYTE,
    devices=1,
    source="NVIDIA GH200 datasheet: up to 512 GB/s of LPDDR5X beside each GPU",
)
GRACE_BLACKWELL = Host(
    link=links.NVLINK_C2C,
    sharing=1,
    memory=512 * GIGABYTE,
    devices=2,
    source="NVIDIA GB200 datasheet: up to 512 GB/s of LPDDR5X beside two GPUs",
)

BY_ARCHITECTURE: Final = {
    "sm70": TWO_XEONS_DDR4,
    "sm75": TWO_XEONS_DDR4,
    "sm80": TWO_ROMES,
    "sm86": ONE_CARD,
    "sm89": ONE_CARD,
    "sm90": TWO_XEONS_DDR5,
    "sm100": TWO_XEONS_DDR5,
    "sm103": TWO_XEONS_DDR5,
    "sm120": TWO_XEONS_DDR5,
    "gfx90a": ONE_CARD,
    "gfx942": TWO_GENOAS,
    "gfx950": TWO_GENOAS,
}
"""The usual host of each architecture, as `Device.architecture` names it."""


def usual_host(device: Device) -> Host:
    """The host that a device says it is in, or that others of its architecture are."""
    return device.host or BY_ARCHITECTURE.get(device.architecture, ONE_CARD)


def host_of(cluster: Cluster) -> Host:
    """The hosts of a cluster."""
    return cluster.host or usual_host(cluster.device)
