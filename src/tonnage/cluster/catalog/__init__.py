"""The devices and links that Tonnage knows, with the source of every figure.

An entry is data: no function stands behind it. Peaks are dense; where a maker publishes
a figure "with sparsity" it is halved, and the entry says so. Where several devices share
an alias, the one that comes first here is meant: the commonest of its family.
"""

from __future__ import annotations

from tonnage.cluster.catalog.amd import AMD
from tonnage.cluster.catalog.ampere import AMPERE
from tonnage.cluster.catalog.apple import APPLE
from tonnage.cluster.catalog.aws import AWS
from tonnage.cluster.catalog.blackwell import BLACKWELL
from tonnage.cluster.catalog.cards import CARDS
from tonnage.cluster.catalog.geforce import GEFORCE
from tonnage.cluster.catalog.hopper import HOPPER
from tonnage.cluster.catalog.hosts import host_of, usual_host
from tonnage.cluster.catalog.huawei import HUAWEI
from tonnage.cluster.catalog.intel import INTEL
from tonnage.cluster.catalog.links import LINKS
from tonnage.cluster.catalog.tpu import TPU
from tonnage.cluster.catalog.volta import VOLTA
from tonnage.cluster.device import Device

DEVICES: tuple[Device, ...] = (
    *VOLTA,
    *AMPERE,
    *HOPPER,
    *BLACKWELL,
    *CARDS,
    *GEFORCE,
    *AMD,
    *INTEL,
    *TPU,
    *AWS,
    *HUAWEI,
    *APPLE,
)

__all__ = ["DEVICES", "LINKS", "host_of", "usual_host"]
