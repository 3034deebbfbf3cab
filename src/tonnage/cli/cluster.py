"""The flags that describe a cluster, for every verb that has one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster import Cluster, Link

_GROUP = Group("Cluster", sort_key=2)


def _flag(metavar: str, text: str) -> Parameter:
    return Parameter(metavar=metavar, help=text, group=_GROUP, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    """A cluster as text: the usual one of a device, or a file's, with parts put over it."""

    gpus: Annotated[str | None, _flag("NxDEVICE", "How many of what, such as 16xH100.")] = None
    cluster_file: Annotated[str | None, _flag("FILE", "A cluster as TOML, in place of --gpus.")] = (
        None
    )
    device_file: Annotated[
        str | None,
        _flag("FILE", "A device as TOML that is not in the catalog; --gpus is then a count."),
    ] = None
    gpus_per_node: Annotated[str | None, _flag("N", "Devices in one host.")] = None
    scale_up_domain: Annotated[
        str | None, _flag("N", "Devices joined by the scale-up link: 72 in an NVL72 rack.")
    ] = None
    scale_up: Annotated[str | None, _flag("LINK", "The scale-up link, such as NVLink4.")] = None
    scale_up_bandwidth: Annotated[
        str | None, _flag("RATE", "One device's share of it, one way, such as 450GB/s.")
    ] = None
    network: Annotated[
        str | None, _flag("LINK", "The link beyond it, such as NDR, RoCE400 or 100GbE.")
    ] = None
    network_bandwidth: Annotated[
        str | None, _flag("RATE", "One device's share of it, one way, such as 50GB/s or 400Gb/s.")
    ] = None
    network_latency: Annotated[
        str | None, _flag("TIME", "What one hop of it takes, such as 5us.")
    ] = None

    def read(self) -> Cluster:
        """The cluster that the flags stand for.

        Raises:
            InputError: one of them stands for nothing, or two contradict each other.
        """
        from tonnage.cli.values import whole

        cluster = self._whole()
        if self.scale_up_domain is not None:
            domain = whole("scale_up_domain", self.scale_up_domain)
            cluster = cluster.override(scale_up_domain=domain)
        return cluster.override(
            scale_up=self._link("scale_up", cluster.scale_up),
            network=self._link("network", cluster.network),
        )

    def read_all(self) -> tuple[Cluster, ...]:
        """The clusters that a list of ``--gpus`` stands for (``8..64xH100,64xB200``).

        Raises:
            InputError: as `read`.
        """
        if self.gpus is None or not ("," in self.gpus or ".." in self.gpus):
            return (self.read(),)
        from tonnage.cluster import parse_clusters

        return tuple(
            dataclasses.replace(self, gpus=f"{each.gpus}x{each.device.name}").read()
            for each in parse_clusters(self.gpus, field="gpus")
        )

    def _whole(self) -> Cluster:
        from tonnage.cli.values import whole
        from tonnage.cluster import load_cluster_file, load_device_file, parse_cluster

        per_node = None
        if self.gpus_per_node is not None:
            per_node = whole("gpus_per_node", self.gpus_per_node)
        if self.cluster_file is not None:
            for field in ("gpus", "device_file"):
                if getattr(self, field) is not None:
                    raise InputError(
                        field=field,
                        value=getattr(self, field),
                        problem="is already decided by the cluster file",
                    )
            cluster = load_cluster_file(self.cluster_file)
            return cluster if per_node is None else cluster.override(gpus_per_node=per_node)
        if self.gpus is None:
            raise InputError(field="gpus", value="", problem="is missing", accepted="16xH100")
        device = None if self.device_file is None else load_device_file(self.device_file)
        return parse_cluster(self.gpus, field="gpus", device=device, gpus_per_node=per_node)

    def _link(self, role: str, usual: Link) -> Link:
        from tonnage.cluster import find_link, override_link

        name = getattr(self, role)
        return override_link(
            usual if name is None else find_link(name, field=role),
            role=role,
            bandwidth=getattr(self, f"{role}_bandwidth"),
            latency=getattr(self, f"{role}_latency", None),
        )
