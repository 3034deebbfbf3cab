"""What a run measured of its own network, where that may be used as an input."""

from __future__ import annotations

import re

from tonnage.cluster import Cluster
from tonnage.score.row import Row
from tonnage.timing import constants
from tonnage.timing.collective import network_step

_GATHER = re.compile(r"\bag=(\d{1,6}(?:\.\d{1,4})?)")

GATHERED = 1.2e9
"""Bytes of the all-gather that the rows' bus bandwidths were measured with. It is not recorded:
twelve groups of ranks, from 16 to 512, agree on 1.2 to 1.4 GB."""


def blocking_collectives(row: Row, cluster: Cluster) -> bool | None:
    """Whether the host was held up in every collective, by the all-gather over all ranks.

    Checking a collective over the hosts takes so long for each rank
    (`tonnage.timing.constants.VERIFY_FAR`); the answer is yes where the measured time is past
    the half of it beyond what ring and bandwidth alone need. None where nothing was measured, or
    within one node, where the two cannot be told apart.
    """
    found = _GATHER.search(row.text("other_measured"))
    if found is None or not float(found[1]) or cluster.gpus <= cluster.gpus_per_node:
        return None
    took = GATHERED / (float(found[1]) * 1e9)
    ports = cluster.gpus_per_node * cluster.network.bandwidth * constants.NETWORK_SHARE
    alone = (cluster.gpus - 1) * network_step(cluster) + GATHERED / ports
    return took > alone + constants.VERIFY_FAR * cluster.gpus / 2
