"""The network of a measured row -> one device's share of it."""

from __future__ import annotations

import dataclasses
import re

from tonnage.cluster import Link

_RATE = re.compile(
    r"(?<!nvlink )\b(?:(?P<ports>\d+)x)?(?P<gigabits>\d+) ?g(?:b/s|bps|b)?(?![a-z])"
    r"(?P<after>[^;+]*)"
)
_NODE_FROM = 900
"""Gb/s: no port of a device has as much, so that a figure from here on is a whole node's."""


def network(text: str, usual: Link, per_node: int) -> Link:
    """The link that a row's words describe, or the device's usual one where they name no rate.

    Args:
        text: the column ``interconnect`` in lower case.
        usual: the device's usual network.
        per_node: devices of a whole node, which share what is given for the node.
    """
    match = _RATE.search(text)
    if match is None:
        return usual
    gigabits = float(match["gigabits"]) * int(match["ports"] or 1)
    shared = match["ports"] or "per node" in match["after"] or gigabits >= _NODE_FROM
    bandwidth = gigabits / (per_node if shared else 1) * 1e9 / 8
    name = "EFA" if "efa" in text else usual.name
    return dataclasses.replace(
        usual, name=name, bandwidth=bandwidth, source="the row's interconnect"
    )
