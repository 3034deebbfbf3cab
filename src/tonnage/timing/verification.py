"""Seconds in which hosts check collectives before they start, where the runtime does so."""

from __future__ import annotations

from tonnage.algebra import Number, where
from tonnage.cluster import Cluster
from tonnage.mesh import Axis, ranks_inside
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.traffic import Traffic


def verification_seconds(setting: Setting, item: Traffic, cluster: Cluster) -> Number:
    """What checking a collective over the hosts takes; an empty one is not made."""
    if not setting.runtime.verified_collectives:
        return 0.0
    made = (item.axis.size > 1) & (item.collective.bytes > 0)
    return where(made, item.count * _checked(item.axis, cluster), 0.0)


def barrier_seconds(setting: Setting, cluster: Cluster) -> Number:
    """The check of the barrier over all ranks that ends a step.

    That of the loss, and of the sums that the gradients' norm takes, falls in while the devices
    reduce gradients.
    """
    if not setting.runtime.verified_collectives:
        return 0.0
    ranks = setting.tp * setting.cp * setting.dp * setting.plan.pp
    return where(ranks > 1, _checked(Axis(name="world", size=ranks, stride=1), cluster), 0.0)


def _checked(axis: Axis, cluster: Cluster) -> Number:
    near = ranks_inside(axis, cluster.gpus_per_node)
    return constants.VERIFY_NEAR * near + constants.VERIFY_FAR * (axis.size - near)
