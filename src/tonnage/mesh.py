"""Ranks, the axes of their grid, the groups along an axis, and the links a group crosses.

Ranks are laid out as Megatron does it (``--use-tp-pp-dp-mapping`` off), the fastest axis
first: tp, cp, dp, pp. Ranks of experts form a second grid over the same world: etp, ep,
edp, pp. Both have pp outermost, so a pipeline stage holds the same ranks in both.

    world = tp * cp * dp * pp = etp * ep * edp * pp

`axes` and the functions of one axis take ints, columns and symbols alike
(`tonnage.algebra`); `Mesh` is one plan's grid in plain ints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from tonnage.algebra import Number, exact_div, maximum, minimum
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.link import Link
from tonnage.errors import InputError

MASTER_PORT = 29500
"""Where the ranks of a job meet, unless ``--master-port`` says otherwise: torchrun's default."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis of a grid: groups of ``size`` ranks, ``stride`` apart.

    Attributes:
        name: ``tp``, ``cp``, ``dp``, ``pp``, ``ep``, ``etp``, ``edp``, or ``dp_cp``.
        size: ranks of one group.
        stride: distance of neighbours in a group, in ranks.
    """

    name: str
    size: Number
    stride: Number

    @property
    def span(self) -> Number:
        """Ranks of the block in which a group lies, other groups' ranks among them."""
        return self.size * self.stride


def axes(
    *,
    tp: Number = 1,
    cp: Number = 1,
    dp: Number = 1,
    pp: Number = 1,
    ep: Number = 1,
    etp: Number = 1,
) -> dict[str, Axis]:
    """The axes of both grids by name, and ``dp_cp``.

    ``dp_cp`` joins cp and dp, which are neighbours: gradients are summed and optimizer
    states sharded over it, because ranks that differ in cp hold the same weights. For
    experts that is ``edp``, which takes what ep and etp leave of ``tp * cp * dp``.
    """
    stage = tp * cp * dp
    edp = exact_div(stage, ep * etp)
    found = (
        Axis(name="tp", size=tp, stride=1),
        Axis(name="cp", size=cp, stride=tp),
        Axis(name="dp", size=dp, stride=tp * cp),
        Axis(name="pp", size=pp, stride=stage),
        Axis(name="etp", size=etp, stride=1),
        Axis(name="ep", size=ep, stride=etp),
        Axis(name="edp", size=edp, stride=etp * ep),
        Axis(name="dp_cp", size=dp * cp, stride=tp),
    )
    return {axis.name: axis for axis in found}


def ranks_inside(axis: Axis, domain: Number) -> Number:
    """How many ranks of one group lie inside one scale-up domain of ``domain`` ranks.

    Domains are taken to hold whole blocks of the grid, as schedulers place them: 64 of
    a rack's 72 where blocks are powers of two.
    """
    return minimum(axis.size, maximum(1, domain // axis.stride))


def crosses(axis: Axis, domain: Number) -> Number:
    """Whether a group has ranks in several scale-up domains; a group of one has not."""
    return ranks_inside(axis, domain) < axis.size


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The grid of one plan: which rank sits where.

    Attributes:
        tp: tensor parallel ranks.
        cp: context parallel ranks.
        dp: data parallel ranks (those that read different samples).
        pp: pipeline stages.
        ep: expert parallel ranks.
        etp: tensor parallel ranks of an expert.
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    etp: int = 1

    def __post_init__(self) -> None:
        """Check that every degree is a count and that the expert grid fills a stage."""
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                problem = "is not a positive whole number"
                raise InputError(
                    field=field.name, value=value, problem=problem, accepted="1 or more"
                )
        stage = self.tp * self.cp * self.dp
        if stage % (self.ep * self.etp):
            raise InputError(
                field="ep",
                value=self.ep,
                problem=f"times etp {self.etp} does not divide the {stage} ranks of a stage",
                accepted=f"a divisor of tp * cp * dp = {stage}",
            )

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def axes(self) -> dict[str, Axis]:
        """The axes of both grids, as `axes` gives them."""
        return axes(tp=self.tp, cp=self.cp, dp=self.dp, pp=self.pp, ep=self.ep, etp=self.etp)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank sits on every axis of both grids, ``dp_cp`` included."""
        if not 0 <= rank < self.world:
            raise InputError(
                field="rank",
                value=rank,
                problem=f"is none of the {self.world} ranks",
                accepted=f"0 to {self.world - 1}",
            )
        return {name: rank // axis.stride % axis.size for name, axis in self.axes.items()}

    def rank(self, *, tp: int = 0, cp: int = 0, dp: int = 0, pp: int = 0) -> int:
        """The rank at these coordinates of the dense grid."""
        return tp + self.tp * (cp + self.cp * (dp + self.dp * pp))

    def group(self, name: str, rank: int) -> range:
        """The group of one rank along an axis, in the axis' order."""
        axis = self.axes[name]
        first = rank - rank // axis.stride % axis.size * axis.stride
        return range(first, first + axis.span, axis.stride)

    def groups(self, name: str) -> list[list[int]]:
        """All groups along an axis, by first rank; each in the axis' order."""
        axis = self.axes[name]
        return [
            [block + offset + axis.stride * position for position in range(axis.size)]
            for block in range(0, self.world, axis.span)
            for offset in range(axis.stride)
        ]

    def stage_first_rank(self, stage: int) -> int:
        """The lowest rank of a pipeline stage."""
        return self.rank(pp=stage)


@dataclass(frozen=True, kw_only=True)
class Membership:
    """A rank's place on one axis.

    Attributes:
        position: which of the group it is: the rank inside the group.
        members: the ranks of the group, in the axis' order.
        link: what the group must cross: the scale-up link where all are in one domain,
            else the network; None for a group of one, which sends nothing.
    """

    position: int
    members: range
    link: Link | None


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One process of a job, as torchrun numbers them.

    Attributes:
        rank: RANK, from 0 over all nodes.
        local_rank: LOCAL_RANK, from 0 in its node; also the index of its device.
        node: GROUP_RANK, the index of its node.
        axes: its place on every axis of both grids, and on ``dp_cp``.
    """

    rank: int
    local_rank: int
    node: int
    axes: Mapping[str, Membership]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What torchrun is told, on every node the same but for the node's own index.

    Attributes:
        nnodes: hosts.
        nproc_per_node: processes, and so devices, in each.
        master_port: the port on node 0; its host is MASTER_ADDR, which only a site knows.
    """

    nnodes: int
    nproc_per_node: int
    master_port: int = MASTER_PORT

    @property
    def world_size(self) -> int:
        """WORLD_SIZE: all processes."""
        return self.nnodes * self.nproc_per_node

    @property
    def command(self) -> str:
        """The launch line, with what differs from site to site as variables of the shell."""
        return (
            f"torchrun --nnodes {self.nnodes} --nproc-per-node {self.nproc_per_node} "
            f'--node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" '
            f"--master-port {self.master_port}"
        )


def launch(cluster: Cluster) -> Launch:
    """How a job on a whole cluster is launched: a process for every device."""
    return Launch(nnodes=cluster.nodes, nproc_per_node=min(cluster.gpus, cluster.gpus_per_node))


def ranks(cluster: Cluster, mesh: Mesh, wanted: Iterable[int] | None = None) -> Iterator[Rank]:
    """The ranks of a mesh on a cluster, one by one: a large cluster has millions.

    RANK is ``node * nproc_per_node + local_rank``, as torchrun numbers processes, so that
    a node's ranks are neighbours and the fastest axis stays inside a node.

    Args:
        cluster: where the job runs.
        mesh: the grid of its ranks.
        wanted: which ranks; None: all.

    Raises:
        InputError: the mesh has another number of ranks than the cluster devices, or one
            that is wanted does not exist.
    """
    if mesh.world != cluster.gpus:
        raise InputError(
            field="gpus",
            value=cluster.gpus,
            problem=f"is not the number of ranks: tp * cp * dp * pp = {mesh.world}",
            accepted=str(mesh.world),
        )
    return _ranks(cluster, mesh, range(mesh.world) if wanted is None else wanted)


def _ranks(cluster: Cluster, mesh: Mesh, wanted: Iterable[int]) -> Iterator[Rank]:
    per_node = launch(cluster).nproc_per_node
    for rank in wanted:
        place = mesh.coordinates(rank)
        memberships = {}
        for name, position in place.items():
            members = mesh.group(name, rank)
            link = group_link(members, cluster)
            memberships[name] = Membership(position=position, members=members, link=link)
        yield Rank(rank=rank, local_rank=rank % per_node, node=rank // per_node, axes=memberships)


def group_link(members: range, cluster: Cluster) -> Link | None:
    """The link that one group must cross; None for a group of one."""
    if len(members) == 1:
        return None
    domain = cluster.scale_up_domain
    together = members[0] // domain == members[-1] // domain
    return cluster.scale_up if together else cluster.network


def axis_link(axis: Axis, cluster: Cluster) -> Link | None:
    """The slowest link that any group along an axis must cross, counted group by group.

    Unlike `crosses`, which takes domains to hold whole blocks, this sees a group of six that
    straddles two nodes of eight. Of blocks only as many are looked at as differ
    in where they start inside a domain.
    """
    size, stride, domain = int(axis.size), int(axis.stride), cluster.scale_up_domain
    if size == 1:
        return None
    reach = (size - 1) * stride
    blocks = min(cluster.gpus // (size * stride), domain // math.gcd(size * stride, domain))
    starts = (block * size * stride % domain for block in range(blocks))
    # The last of a block's groups starts `stride - 1` later, or some group at a domain's end.
    crosses_border = any(min(start + stride - 1, domain - 1) + reach >= domain for start in starts)
    return cluster.network if crosses_border else cluster.scale_up
