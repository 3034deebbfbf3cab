"""What a run runs on: `Device`, `Link`, `Cluster`, and a catalog with sources."""

from tonnage.cluster.catalog import DEVICES, LINKS, host_of, usual_host
from tonnage.cluster.cluster import LARGEST_CLUSTER, Cluster
from tonnage.cluster.device import Device
from tonnage.cluster.files import (
    load_cluster_file,
    load_device_file,
    override_host,
    override_link,
)
from tonnage.cluster.find import find_device, find_link
from tonnage.cluster.host import Host
from tonnage.cluster.link import Link
from tonnage.cluster.parse import parse_cluster, parse_clusters
from tonnage.cluster.write import device_toml

__all__ = [
    "DEVICES",
    "LARGEST_CLUSTER",
    "LINKS",
    "Cluster",
    "Device",
    "Host",
    "Link",
    "device_toml",
    "find_device",
    "find_link",
    "host_of",
    "load_cluster_file",
    "load_device_file",
    "override_host",
    "override_link",
    "parse_cluster",
    "parse_clusters",
    "usual_host",
]
