"""Bytes and seconds of a collective over a group of ranks."""

from __future__ import annotations

from tonnage.algebra import Number, where
from tonnage.cluster import Cluster
from tonnage.ledger import Collective
from tonnage.mesh import Axis, ring_link, slowest_link
from tonnage.timing.efficiency import Efficiency


def wire_bytes(collective: Collective, size: Number) -> Number:
    """Bytes that each rank of a group of ``size`` sends.

    Ring algorithms: an all-reduce sends 2(n-1)/n of the tensor, its two halves (all-gather
    and reduce-scatter) and an all-to-all (n-1)/n (Thakur et al., 2005; nccl-tests,
    PERFORMANCE.md). A send carries what it says.
    """
    if collective.kind == "send":
        return where(size > 1, collective.bytes, 0)
    passes = 2 if collective.kind == "all_reduce" else 1
    return passes * collective.bytes * (size - 1) / size


def collective_seconds(
    collective: Collective, axis: Axis, cluster: Cluster, efficiency: Efficiency
) -> Number:
    """A latency for each hop, and bytes over the bandwidth of the slowest link crossed."""
    ring = collective.kind in ("all_reduce", "all_gather", "reduce_scatter")
    link = ring_link(axis, cluster) if ring else slowest_link(axis, cluster)
    hops = where(axis.size > 1, axis.size - 1 if ring else 1, 0)
    passes = 2 if collective.kind == "all_reduce" else 1
    moved = wire_bytes(collective, axis.size)
    return passes * hops * link.latency + moved / (link.bandwidth * efficiency.link)
