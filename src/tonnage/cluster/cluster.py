"""A cluster: how many of which device, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tonnage.cluster.device import Device
from tonnage.cluster.host import Host
from tonnage.cluster.link import Link
from tonnage.errors import InputError

LARGEST_CLUSTER = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """So many devices of one kind, in nodes.

    Attributes:
        device: the device.
        gpus: how many.
        gpus_per_node: devices in one host.
        scale_up_domain: devices joined by ``scale_up``: usually those of a node.
        scale_up: the link inside a scale-up domain.
        network: the link beyond it, one device's share.
        host: the machines that the devices are in; None: those that are usual for them.
    """

    device: Device
    gpus: int
    gpus_per_node: int
    scale_up_domain: int
    scale_up: Link
    network: Link
    host: Host | None = None

    def __post_init__(self) -> None:
        """Check what no link can repair: the counts."""
        for field in ("gpus_per_node", "scale_up_domain"):
            check_count(getattr(self, field), field=field)
        check_gpus(self.gpus, self.gpus_per_node, field="gpus")

    @classmethod
    def of(cls, device: Device, gpus: int) -> Cluster:
        """The cluster that a device is usually found in."""
        return cls(
            device=device,
            gpus=gpus,
            gpus_per_node=device.gpus_per_node,
            scale_up_domain=device.scale_up_domain,
            scale_up=device.scale_up,
            network=device.network,
        )

    @property
    def nodes(self) -> int:
        """Hosts, the last of which may be partly used where there is only one."""
        return -(-self.gpus // self.gpus_per_node)

    def override(self, **parts: Any) -> Cluster:
        """The cluster with some attributes replaced, checked again.

        ``gpus_per_node`` alone moves the scale-up domain with it where the two were the
        same. ``bandwidth`` of a link is replaced by replacing the link.
        """
        if self.scale_up_domain == self.gpus_per_node and "gpus_per_node" in parts:
            parts.setdefault("scale_up_domain", parts["gpus_per_node"])
        return replace(self, **parts)


def check_gpus(gpus: int, gpus_per_node: int, *, field: str) -> None:
    """Check that so many devices fill whole nodes, or fit into one.

    Raises:
        InputError: where they do not, with the nearest counts that do.
    """
    check_count(gpus, field=field)
    if gpus > LARGEST_CLUSTER:
        problem = "is more devices than any cluster has"
        raise InputError(
            field=field, value=gpus, problem=problem, accepted=f"1 to {LARGEST_CLUSTER}"
        )
    if gpus > gpus_per_node and gpus % gpus_per_node:
        below = gpus // gpus_per_node * gpus_per_node
        raise InputError(
            field=field,
            value=gpus,
            problem=f"does not fill whole nodes of {gpus_per_node} devices",
            accepted=f"{below} or {below + gpus_per_node}",
        )


def check_count(value: object, *, field: str) -> None:
    """Check that a value counts something.

    Raises:
        InputError: where it is no whole number from 1.
    """
    if type(value) is not int or value < 1:
        problem = "is not a positive whole number"
        raise InputError(field=field, value=value, problem=problem, accepted="1 or more")
