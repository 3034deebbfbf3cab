"""All that one rank of a stage sends in a step, by kind and axis."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, exact_div
from tonnage.cluster import Cluster
from tonnage.ledger import Collective, Operations, StageLedger
from tonnage.ledger.data_parallel import data_parallel_collectives
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import Phase
from tonnage.mesh import Axis, axes
from tonnage.plan import Setting
from tonnage.timing.collective import collective_seconds, wire_bytes


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Collectives of one kind over one axis, from one operation.

    Attributes:
        collective: one of them.
        axis: the group.
        count: how many in a step.
    """

    collective: Collective
    axis: Axis
    count: Number

    @property
    def bytes(self) -> Number:
        """Bytes that a rank sends in a step."""
        return self.count * wire_bytes(self.collective, self.axis.size)

    def seconds(self, cluster: Cluster) -> Number:
        """Seconds of all of them, one after the other, hidden or not."""
        return self.count * collective_seconds(self.collective, self.axis, cluster)


SHARDED = {
    "dp_cp": ("hsdp_shard", "hsdp_replicate"),
    "edp": ("hsdp_expert_shard", "hsdp_expert_replicate"),
}
"""The groups that HSDP makes of the replicas of dense weights, and of experts: of one copy's
shards, and of the copies of a shard."""


def mesh_axes(setting: Setting) -> dict[str, Axis]:
    """The axes of the grid; with HSDP also the shard groups and the replicas of each."""
    found = axes(
        tp=setting.tp,
        cp=setting.cp,
        dp=setting.dp,
        pp=setting.plan.pp,
        ep=setting.ep,
        etp=setting.etp,
    )
    for name, shard in (("dp_cp", setting.shard), ("edp", setting.expert_shard)):
        inner, outer = SHARDED[name]
        whole = found[name]
        found[inner] = Axis(name=inner, size=shard, stride=whole.stride)
        found[outer] = Axis(name=outer, size=whole.size // shard, stride=whole.stride * shard)
    return found


def layer_traffic(
    setting: Setting, operations: Operations, count: Number, *, rebuilt: bool
) -> list[Traffic]:
    """What some operations send in a step.

    Args:
        setting: the run.
        operations: of a layer, the embedding or the head.
        count: layers of that kind times micro-batches.
        rebuilt: whether full recomputation repeats the forward collectives.
    """
    found = mesh_axes(setting)
    return [
        Traffic(
            collective=collective,
            axis=found[collective.axis],
            count=count * (2 if rebuilt and collective.phase == "forward" else 1),
        )
        for operation in operations
        for collective in operation.collectives
    ]


def pipeline_traffic(setting: Setting, ledger: StageLedger) -> list[Traffic]:
    """Activations to the next stage and gradients to the one before, once a chunk."""
    plan, stage = setting.plan, ledger.stage
    if plan.pp == 1:
        return []
    size = layer_input(setting).bytes
    shared = setting.runtime.scatter_gather and not setting.sp
    # Between rounds of interleaving the last stage sends on to the first.
    onward = plan.vpp - stage.head
    back = plan.vpp - stage.embedding
    found = mesh_axes(setting)
    traffic: list[Traffic] = []
    ways: tuple[tuple[Phase, int], ...] = (("forward", onward), ("backward", back))
    for phase, chunks in ways:
        if not chunks:
            continue
        sent = exact_div(size, setting.tp) if shared else size
        pieces = [Collective(kind="send", axis="pp", bytes=sent, phase=phase)]
        if shared:
            pieces.append(Collective(kind="all_gather", axis="tp", bytes=size, phase=phase))
        count = chunks * setting.grad_acc
        traffic += [Traffic(collective=c, axis=found[c.axis], count=count) for c in pieces]
    return traffic


def data_parallel_traffic(setting: Setting, ledger: StageLedger) -> list[Traffic]:
    """Gradients and sharded parameters; under HSDP a second step joins the shard groups."""
    found = mesh_axes(setting)
    traffic: list[Traffic] = []
    for collective, count in data_parallel_collectives(setting, ledger):
        axis = found[collective.axis]
        if setting.plan.hsdp_shard is None:
            traffic.append(Traffic(collective=collective, axis=axis, count=count))
            continue
        inner, outer = (found[name] for name in SHARDED[collective.axis])
        traffic.append(Traffic(collective=collective, axis=inner, count=count))
        if collective.kind == "reduce_scatter":
            share = dataclasses.replace(
                collective, kind="all_reduce", bytes=collective.bytes / inner.size
            )
            traffic.append(Traffic(collective=share, axis=outer, count=count))
    return traffic
