"""The flags that describe a cluster, for every verb that has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster import Cluster, Device, Host, Link

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
    host_bandwidth: Annotated[
        str | None, _flag("RATE", "The link to the host's memory, one way, such as 25GB/s.")
    ] = None
    host_memory_bandwidth: Annotated[
        str | None, _flag("RATE", "The memory of one host, all its channels, such as 400GB/s.")
    ] = None

    def read(self) -> Cluster:
        """The cluster that the flags stand for.

        Raises:
            InputError: one of them stands for nothing, or two contradict each other.
        """
        from tonnage.cluster import parse_cluster

        if self.cluster_file is not None:
            return self._changed(self._of_file(self.cluster_file))
        device, per_node = self._device(), self._per_node()
        return self._changed(
            parse_cluster(self._gpus(), field="gpus", device=device, gpus_per_node=per_node)
        )

    def read_all(self, *, every: bool = False) -> tuple[Cluster, ...]:
        """The clusters of a list, ``8,64,512xH100`` or ``8..512xH100``, in the order written.

        A cluster that a list names twice (``8..64xH100,16xH100``) is one.

        Args:
            every: as `tonnage.cluster.parse_clusters` has it.

        Raises:
            InputError: as `read`.
        """
        from tonnage.cluster import parse_clusters

        if self.cluster_file is not None:
            return (self.read(),)
        device, per_node = self._device(), self._per_node()
        found = parse_clusters(
            self._gpus(), field="gpus", device=device, gpus_per_node=per_node, every=every
        )
        once = [each for place, each in enumerate(found) if each not in found[:place]]
        return tuple(self._changed(cluster) for cluster in once)

    def _changed(self, cluster: Cluster) -> Cluster:
        """A cluster with what the other flags say put over it."""
        from tonnage.cli.values import whole

        if self.scale_up_domain is not None:
            domain = whole("scale_up_domain", self.scale_up_domain)
            cluster = cluster.override(scale_up_domain=domain)
        return cluster.override(
            scale_up=self._link("scale_up", cluster.scale_up),
            network=self._link("network", cluster.network),
            host=self._host(cluster),
        )

    def _host(self, cluster: Cluster) -> Host | None:
        """The hosts as they were, or with what the flags say put over them."""
        from tonnage.cluster import host_of, override_host

        if self.host_bandwidth is None and self.host_memory_bandwidth is None:
            return cluster.host
        return override_host(
            host_of(cluster), bandwidth=self.host_bandwidth, memory=self.host_memory_bandwidth
        )

    def _gpus(self) -> str:
        if self.gpus is None:
            raise InputError(field="gpus", value="", problem="is missing", accepted="16xH100")
        return self.gpus

    def _device(self) -> Device | None:
        from tonnage.cluster import load_device_file

        return None if self.device_file is None else load_device_file(self.device_file)

    def _per_node(self) -> int | None:
        from tonnage.cli.values import whole

        return None if self.gpus_per_node is None else whole("gpus_per_node", self.gpus_per_node)

    def _of_file(self, path: str) -> Cluster:
        from tonnage.cluster import load_cluster_file

        for field in ("gpus", "device_file"):
            if getattr(self, field) is not None:
                raise InputError(
                    field=field,
                    value=getattr(self, field),
                    problem="is already decided by the cluster file",
                )
        cluster, per_node = load_cluster_file(path), self._per_node()
        return cluster if per_node is None else cluster.override(gpus_per_node=per_node)

    def _link(self, role: str, usual: Link) -> Link:
        from tonnage.cluster import find_link, override_link

        name = getattr(self, role)
        return override_link(
            usual if name is None else find_link(name, field=role),
            role=role,
            bandwidth=getattr(self, f"{role}_bandwidth"),
            latency=getattr(self, f"{role}_latency", None),
        )
