"""The devices that Tonnage knows, with the source of every figure.

An entry is data: no function stands behind it. Peaks are dense; where a maker publishes
a figure "with sparsity" it is halved, and the entry says so. Where several devices share
an alias, the one that comes first here is meant: the commonest of its family.
"""

from __future__ import annotations

from tonnage.cluster.catalog.amd import AMD
from tonnage.cluster.catalog.ampere import AMPERE
from tonnage.cluster.catalog.blackwell import BLACKWELL
from tonnage.cluster.catalog.geforce import GEFORCE
from tonnage.cluster.catalog.hopper import HOPPER
from tonnage.cluster.catalog.huawei import HUAWEI
from tonnage.cluster.catalog.volta import VOLTA
from tonnage.cluster.device import Device

DEVICES: tuple[Device, ...] = (
    *VOLTA,
    *AMPERE,
    *HOPPER,
    *BLACKWELL,
    *GEFORCE,
    *AMD,
    *HUAWEI,
)

__all__ = ["DEVICES"]
