"""Seconds of one pass through some operations: device, communication in the open, and host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.algebra import Number, maximum, total, where
from tonnage.cluster import Cluster
from tonnage.ledger import Operations
from tonnage.ledger.operation import Phase
from tonnage.ledger.piece import RECOMPUTE, by_piece
from tonnage.plan import Setting
from tonnage.plan.schedule import OVERLAPPED
from tonnage.timing import constants
from tonnage.timing.beside import hidden_seconds
from tonnage.timing.kernel import Rates, backward_seconds, cast_seconds, forward_seconds
from tonnage.timing.traffic import Traffic, mesh_axes
from tonnage.timing.verification import verification_seconds

AXIS_PARTS = {
    "tp": "tensor_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "etp": "expert_parallel",
    "pp": "pipeline_sends",
}
"""The part of a step's time that an axis' exposed communication counts as."""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Seconds of one pass.

    Attributes:
        compute: of the kernels.
        exposed: of communication that nothing hides, by part.
        host: that the device waits for work.
    """

    compute: Number
    exposed: dict[str, Number]
    host: Number

    @property
    def seconds(self) -> Number:
        """All of it."""
        return self.compute + total(self.exposed.values()) + self.host


@by_piece(*RECOMPUTE)
def one_pass(
    setting: Setting,
    operations: Operations,
    phase: Phase,
    rate: Rates,
    cluster: Cluster,
    layer: bool = True,
) -> Pass:
    """One pass of one layer, or of the embedding or the head, which the host has ready."""
    time = forward_seconds if phase == "forward" else backward_seconds
    each = [time(setting, rate, operation) for operation in operations]
    compute = total(each) + cast_seconds(setting, rate, operations, phase)
    attention = total(
        seconds
        for operation, seconds in zip(operations, each, strict=True)
        if "core_attn" in operation.modules
    )
    found = mesh_axes(setting)
    traffic = [
        Traffic(collective=collective, axis=found[collective.axis], count=1)
        for operation in operations
        for collective in operation.collectives
        if collective.phase == phase
    ]
    hidden: Number = 0.0
    if phase == "backward" and setting.sp and setting.runtime.tp_async:
        hidden = hidden_seconds(setting, operations, each, rate, cluster)
    exposed = exposed_seconds(setting, traffic, cluster, under=attention, hidden=hidden)
    host = host_seconds(setting, traffic, cluster) if layer else 0.0
    return Pass(
        compute=compute,
        exposed=exposed,
        host=maximum(host - compute - total(exposed.values()), 0.0),
    )


def exposed_seconds(
    setting: Setting,
    traffic: Iterable[Traffic],
    cluster: Cluster,
    under: Number = 0.0,
    hidden: Number = 0.0,
) -> dict[str, Number]:
    """Communication that nothing hides, by part.

    Args:
        setting: the run; its runtime's habits say what is hidden.
        traffic: the collectives.
        cluster: the links.
        under: seconds of attention, under which a context-parallel ring runs.
        hidden: seconds of tensor-parallel collectives that run beside a product.
    """
    habits = setting.runtime
    tensor = constants.TENSOR_HIDDEN if setting.plan.tp_comm_overlap else habits.tp_overlap
    overlapped = setting.plan.schedule in OVERLAPPED
    beside = overlapped or (habits.overlap_sends and setting.plan.vpp > 1)
    shares = {
        "tp": 1.0 - tensor,
        "ep": 1.0 - habits.ep_overlap,
        "pp": 1.0 - constants.SENDS_HIDDEN if beside else 1.0,
    }
    exposed: dict[str, Number] = dict.fromkeys(AXIS_PARTS.values(), 0.0)
    exposed["tensor_parallel"] = -shares["tp"] * hidden
    rings: Number = 0.0
    for item in traffic:
        seconds = item.seconds(cluster) * shares.get(item.axis.name, 1.0)
        if item.axis.name == "cp" and item.collective.kind == "send":
            rings = rings + seconds
        else:
            part = AXIS_PARTS[item.axis.name]
            exposed[part] = exposed[part] + seconds
    shown = maximum(rings - under, 0.0) if habits.ring_overlap else rings
    exposed["context_parallel"] = exposed["context_parallel"] + shown
    return exposed


def host_seconds(setting: Setting, traffic: Iterable[Traffic], cluster: Cluster) -> Number:
    """What the host needs to issue one layer's pass; nothing where graphs replay it."""
    if setting.runtime.host == "graph" or setting.plan.cuda_graphs:
        return 0.0
    once = cluster.device.measured.get("host_pass", constants.HOST_PASS)
    seconds = once * (constants.COMPILED_HOST if setting.plan.compile else 1.0)
    for item in traffic:
        in_place = item.collective.kind == "all_reduce"
        issue = constants.HOST_REDUCE if in_place else constants.HOST_COLLECTIVE
        seconds = seconds + where(item.axis.size > 1, item.count * issue, 0.0)
        seconds = seconds + verification_seconds(setting, item, cluster)
    return seconds
