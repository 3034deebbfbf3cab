"""What an estimate says of a run that holds something in host memory."""

from __future__ import annotations

from tonnage.cluster import Cluster, host_of
from tonnage.plan import Setting
from tonnage.quantity import format_rate
from tonnage.timing import constants
from tonnage.timing.host_memory import sharers, steps_on_host

NO_CAPACITY = "whether the host has room for what is held there"
"""What nothing is known of: a cluster says nothing of its hosts' capacity."""


def host_notes(setting: Setting, cluster: Cluster) -> tuple[str, ...]:
    """What is taken for granted of the hosts, where a run uses their memory."""
    if not setting.plan.held_on_host:
        return ()
    host, users = host_of(cluster), sharers(cluster)
    link = format_rate(constants.HOST_LINK_SHARE * host.link.bandwidth, "B/s")
    shared = f", shared by {host.sharing} devices" if host.sharing > 1 else ""
    notes = [
        f"copies to the host and back reach {link} each way over {host.link.name}{shared}: "
        f"{host.source}",
    ]
    if steps_on_host(setting):
        rate = format_rate(constants.HOST_STEP_SHARE * host.memory, "B/s")
        notes.append(
            f"a step on the host reaches {rate} of its memory, for {users} device"
            f"{'s' if users > 1 else ''} together, while the devices wait"
        )
    return tuple(notes)
