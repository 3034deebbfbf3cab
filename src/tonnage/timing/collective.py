"""Bytes and seconds of a collective over a group of ranks.

NCCL's two kinds of protocol: a low-latency one that starts at once and loses bandwidth to
the flags among its data, and one that fills buffers first and then runs near full rate. It
picks whichever its own model says is faster, and so does `collective_seconds`.
"""

from __future__ import annotations

import dataclasses

from tonnage.algebra import Number, is_array, is_one, log2, maximum, minimum, where
from tonnage.cluster import Cluster
from tonnage.ledger import Collective
from tonnage.mesh import Axis, crosses, ranks_inside
from tonnage.timing import constants
from tonnage.timing.constants import LinkRates


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


def collective_seconds(collective: Collective, axis: Axis, cluster: Cluster) -> Number:
    """Seconds of one collective on its own; nothing for a group of one or an empty tensor."""
    if is_one(axis.size) or (not is_array(collective.bytes) and collective.bytes == 0):
        return 0.0
    outside = crosses(axis, cluster.scale_up_domain)
    if collective.kind == "send":
        seconds = where(outside, _sent_out(collective, cluster), _sent_inside(collective, cluster))
    elif collective.kind == "all_to_all":
        seconds = _exchanged(collective, axis, cluster)
    else:
        inside = _inside(collective, axis.size, cluster)
        seconds = where(outside, _across(collective, axis, cluster), inside)
    return where((axis.size > 1) & (collective.bytes > 0), seconds, 0.0)


def link_rates(cluster: Cluster) -> LinkRates:
    """The rates of the link inside the cluster's domains: its kind's, or those measured on it."""
    link = cluster.scale_up
    usual = next(
        (rates for name, rates in constants.LINK_RATES.items() if link.name.startswith(name)),
        constants.OTHER_LINK,
    )
    return dataclasses.replace(usual, **link.measured) if link.measured else usual


def network_hop(cluster: Cluster) -> float:
    """Seconds of one step across nodes."""
    hops = constants.FABRIC_HOPS.items()
    network = cluster.network
    usual = next(
        (seconds for name, seconds in hops if network.name.startswith(name)), constants.NETWORK_HOP
    )
    return network.measured.get("hop", usual)


def network_step(cluster: Cluster) -> float:
    """Seconds of one step of a ring across nodes, each of which all of its ranks take together."""
    slow = any(cluster.network.name.startswith(name) for name in constants.FABRIC_HOPS)
    if slow or "hop" in cluster.network.measured:
        return network_hop(cluster)
    return constants.NETWORK_STEP


def port_bandwidth(cluster: Cluster) -> float:
    """Bytes per second through one device's port of the network."""
    share = cluster.network.measured.get("share", constants.NETWORK_SHARE)
    return share * cluster.network.bandwidth


def _steps(collective: Collective, size: Number) -> Number:
    passes = 2 if collective.kind == "all_reduce" else 1
    return passes * (size - 1)


def _inside(collective: Collective, size: Number, cluster: Cluster) -> Number:
    """Within one domain: the better of the two protocols, and of the switch where it can sum."""
    rates = link_rates(cluster)
    link = cluster.scale_up.bandwidth
    wire, steps = wire_bytes(collective, size), _steps(collective, size)
    low = rates.hop * steps + wire / (rates.low_share * link)
    simple = rates.fill + rates.simple_hop * steps + wire / (rates.share * link)
    ring = rates.start + minimum(low, simple)
    newer = cluster.device.architecture >= "sm90" and len(cluster.device.architecture) >= 4
    if collective.kind != "all_reduce" or not newer or "NVLink" not in cluster.scale_up.name:
        return ring
    switch = constants.SWITCH_START + wire / (constants.SWITCH_SHARE * link)
    return where(size >= constants.SWITCH_RANKS, minimum(ring, switch), ring)


def _across(collective: Collective, axis: Axis, cluster: Cluster) -> Number:
    """Across domains: the ports of all ranks that a group has in a domain carry its rings.

    An all-reduce of many ranks goes up and down a chain of the ranks in each domain and a binary
    tree over the domains (NCCL's double binary trees). Its halves have no tree: their ring takes
    a step for each rank but one.
    """
    rates = link_rates(cluster)
    near = ranks_inside(axis, cluster.scale_up_domain)
    ports = near * port_bandwidth(cluster)
    bandwidth = minimum(ports, where(ports > 0, rates.share * cluster.scale_up.bandwidth, 0))
    wire = wire_bytes(collective, axis.size)
    latency = network_step(cluster) * _steps(collective, axis.size)
    if collective.kind == "all_reduce":
        hops = 2 * (near - 1) + 2 * log2(axis.size / near)
        latency = minimum(latency, network_hop(cluster) * hops)
    return rates.start + latency + wire / bandwidth


def _exchanged(collective: Collective, axis: Axis, cluster: Cluster) -> Number:
    """An all-to-all: what stays in the domain and what leaves it go at the same time."""
    rates = link_rates(cluster)
    near = ranks_inside(axis, cluster.scale_up_domain)
    share = collective.bytes / axis.size
    stays = share * (near - 1) / cluster.scale_up.bandwidth
    inside = minimum(stays / rates.low_share, rates.fill + stays / rates.exchange)
    outside = share * (axis.size - near) / port_bandwidth(cluster)
    far = where(axis.size > near, network_hop(cluster), 0.0)
    return rates.start + far + maximum(inside, outside)


def _sent_inside(collective: Collective, cluster: Cluster) -> Number:
    rates = link_rates(cluster)
    return rates.start + collective.bytes / (rates.share * cluster.scale_up.bandwidth)


def _sent_out(collective: Collective, cluster: Cluster) -> Number:
    wire = collective.bytes / port_bandwidth(cluster)
    return link_rates(cluster).start + network_hop(cluster) + wire
