"""The layout of ranks on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tonnage.cluster import Cluster
from tonnage.mesh import Membership, Mesh, Rank, axis_link, launch, ranks
from tonnage.quantity import format_rate
from tonnage.report.hardware import link_json
from tonnage.report.layout import Justify, bullets, console, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

MOST_MEMBERS = 1_000_000
"""More members than this, of all groups of all ranks shown, stand as ``first``, ``stride``
and ``size`` only."""


def layout_json(cluster: Cluster, mesh: Mesh, wanted: Sequence[int]) -> dict[str, object]:
    """The launch, the axes and the ranks that are wanted, as JSON takes them."""
    told = launch(cluster)
    sizes = {name: int(axis.size) for name, axis in mesh.axes.items()}
    listed = len(wanted) * sum(sizes.values()) <= MOST_MEMBERS
    placed = [_rank_json(rank, listed=listed) for rank in ranks(cluster, mesh, wanted)]
    return {
        "device": cluster.device.name,
        "world_size": mesh.world,
        "nnodes": told.nnodes,
        "nproc_per_node": told.nproc_per_node,
        "master_addr": "the host of node 0",
        "master_port": told.master_port,
        "command": told.command,
        "axes": {
            name: {
                "size": sizes[name],
                "stride": int(axis.stride),
                "link": None if (link := axis_link(axis, cluster)) is None else link_json(link),
            }
            for name, axis in mesh.axes.items()
        },
        "shown": {"ranks": len(placed), "first": wanted[0], "of": mesh.world},
        "ranks": placed,
    }


def print_layout(
    cluster: Cluster, mesh: Mesh, wanted: Sequence[int], screen: Console | None = None
) -> None:
    """Print the launch, the axes and the ranks that are wanted."""
    placed = list(ranks(cluster, mesh, wanted))
    screen = screen or console()
    told = launch(cluster)
    heading(screen, f"{mesh.world} ranks", f"{told.nnodes} nodes of {told.nproc_per_node}")
    bullets(screen, [told.command, "MASTER_ADDR is the host of node 0"])
    heading(screen, "Axes", "size, and the slowest link that a group must cross")
    used = _used(mesh)
    facts(screen, [_axis_row(cluster, mesh, name) for name in used])
    heading(screen, "Ranks", _shown(len(placed), mesh.world))
    columns: list[tuple[str, Justify]] = [("rank", "right"), ("node", "right"), ("local", "right")]
    columns += [(name, "left") for name in used]
    rows = [
        [
            *(str(value) for value in (rank.rank, rank.node, rank.local_rank)),
            *(_place(rank.axes[name]) for name in used),
        ]
        for rank in placed
    ]
    listing(screen, columns, rows)


def _used(mesh: Mesh) -> list[str]:
    """The axes worth a column: more than one rank wide, and not another axis under a new name."""
    doubled = set() if mesh.ep * mesh.etp > 1 else {"edp"}
    if mesh.cp == 1 or mesh.dp == 1:
        doubled.add("dp_cp")
    return [name for name, axis in mesh.axes.items() if axis.size > 1 and name not in doubled]


def _shown(count: int, world: int) -> str:
    place = "its place on each axis, and the group in brackets"
    return place if count == world else f"{place}; {count} of {world}: --node and --rank choose"


def _axis_row(cluster: Cluster, mesh: Mesh, name: str) -> tuple[str, str, str]:
    axis = mesh.axes[name]
    link = axis_link(axis, cluster)
    crossed = "" if link is None else f"{link.name}, {format_rate(link.bandwidth, 'B/s')}"
    return name, str(axis.size), crossed


def _place(membership: Membership) -> str:
    """``1 [8-11]``, ``0 [0,8]``, ``3 [0,2..14]``: the position, and the group's ranks."""
    members = membership.members
    if len(members) == 1:
        group = str(members[0])
    elif members.step == 1:
        group = f"{members[0]}-{members[-1]}"
    elif len(members) == 2:
        group = f"{members[0]},{members[1]}"
    else:
        group = f"{members[0]},{members[1]}..{members[-1]}"
    return f"{membership.position} [{group}]"


def _rank_json(rank: Rank, *, listed: bool) -> dict[str, object]:
    return {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "node": rank.node,
        "coordinates": {name: place.position for name, place in rank.axes.items()},
        "groups": {name: _group_json(place, listed=listed) for name, place in rank.axes.items()},
    }


def _group_json(place: Membership, *, listed: bool) -> dict[str, object]:
    members = place.members
    return {
        "first": members[0],
        "stride": members.step,
        "size": len(members),
        "members": list(members) if listed else None,
        "link": None if place.link is None else place.link.name,
    }
