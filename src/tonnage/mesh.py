"""Ranks, the axes of their grid, the groups along an axis, and the links a group crosses.

Ranks are laid out as Megatron does it (``--use-tp-pp-dp-mapping`` off), the fastest axis
first: tp, cp, dp, pp. Ranks of experts form a second grid over the same world: etp, ep,
edp, pp. Both have pp outermost, so a pipeline stage holds the same ranks in both.

    world = tp * cp * dp * pp = etp * ep * edp * pp

`axes` and the functions of one axis take ints, columns and symbols alike
(`tonnage.algebra`); `Mesh` is one plan's grid in plain ints.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tonnage.algebra import Number, exact_div, maximum, minimum, where
from tonnage.cluster.cluster import Cluster
from tonnage.errors import InputError

DENSE_GRID = ("tp", "cp", "dp", "pp")
EXPERT_GRID = ("etp", "ep", "edp", "pp")


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


@dataclass(frozen=True, kw_only=True)
class GroupLink:
    """What the ranks of a group send through, one rank's share of it.

    Attributes:
        bandwidth: bytes per second in one direction.
        latency: seconds of one hop.
    """

    bandwidth: Number
    latency: Number


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


def slowest_link(axis: Axis, cluster: Cluster) -> GroupLink:
    """The slowest link that a group crosses, as one rank sees it.

    For traffic between two ranks (a pipeline's sends) and for the part of an
    all-to-all that leaves the domain. A collective over a ring has `ring_link`.
    """
    outside = crosses(axis, cluster.scale_up_domain)
    return GroupLink(
        bandwidth=where(outside, cluster.network.bandwidth, cluster.scale_up.bandwidth),
        latency=where(outside, cluster.network.latency, cluster.scale_up.latency),
    )


def ring_link(axis: Axis, cluster: Cluster) -> GroupLink:
    """What limits a ring over a group, as one rank sees it.

    A ring enters and leaves a domain once. With ``m`` ranks of the group inside, as many
    rings run at once, each through another rank's port of the network, so a rank's bytes
    pass at ``m`` ports' rate, though never faster than inside the domain. This is what
    NCCL does with a port for each GPU: two nodes of 8 H100s reach 8 * 50 GB/s and not 50.
    """
    domain = cluster.scale_up_domain
    inside, outside = cluster.scale_up, cluster.network
    ports = ranks_inside(axis, domain) * outside.bandwidth
    crossing = crosses(axis, domain)
    return GroupLink(
        bandwidth=where(crossing, minimum(inside.bandwidth, ports), inside.bandwidth),
        latency=where(crossing, maximum(inside.latency, outside.latency), inside.latency),
    )


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
