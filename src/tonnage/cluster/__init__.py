"""What a run runs on: `Device`, `Link`, `Cluster`, and a catalog with sources."""

from tonnage.cluster.catalog import DEVICES
from tonnage.cluster.cluster import LARGEST_CLUSTER, Cluster
from tonnage.cluster.device import Device
from tonnage.cluster.find import find_device
from tonnage.cluster.link import Link
from tonnage.cluster.parse import parse_cluster, parse_clusters

__all__ = [
    "DEVICES",
    "LARGEST_CLUSTER",
    "Cluster",
    "Device",
    "Link",
    "find_device",
    "parse_cluster",
    "parse_clusters",
]
