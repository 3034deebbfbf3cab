"""``tonnage ranks``: where every rank of a job sits, as torchrun lays it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster import Cluster
    from tonnage.mesh import Mesh

MOST_RANKS = 1024
"""More ranks than this are not listed at once; a node has fewer."""

_GRID = Group("Grid", sort_key=1)
_SHOWN = Group("What is shown", sort_key=3)
_NO_CLUSTER = ClusterFlags()


def _degree(text: str) -> Parameter:
    return Parameter(metavar="N", help=text, group=_GRID, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridFlags:
    """The degrees of a grid as text; ``dp`` takes what the others leave."""

    tp: Annotated[str, _degree("Tensor parallel ranks.")] = "1"
    pp: Annotated[str, _degree("Pipeline stages.")] = "1"
    cp: Annotated[str, _degree("Context parallel ranks.")] = "1"
    dp: Annotated[str | None, _degree("Data parallel ranks; the rest, if absent.")] = None
    ep: Annotated[str, _degree("Expert parallel ranks.")] = "1"
    etp: Annotated[str, _degree("Tensor parallel ranks of an expert.")] = "1"

    def read(self, gpus: int) -> Mesh:
        """The grid over so many devices.

        Raises:
            InputError: a degree is no count, or they do not fill the devices.
        """
        from tonnage.cli.values import whole
        from tonnage.mesh import Mesh

        names = ("tp", "pp", "cp", "ep", "etp")
        degrees = {name: whole(name, getattr(self, name)) for name in names}
        rest = Mesh(tp=degrees["tp"], pp=degrees["pp"], cp=degrees["cp"]).world
        if self.dp is not None:
            return Mesh(**degrees, dp=whole("dp", self.dp))
        if gpus % rest:
            raise InputError(
                field="gpus",
                value=gpus,
                problem=f"is no multiple of tp * cp * pp = {rest}",
                accepted=f"a multiple of {rest}",
            )
        return Mesh(**degrees, dp=gpus // rest)


_NO_GRID = GridFlags()


def ranks(
    *,
    cluster: ClusterFlags = _NO_CLUSTER,
    grid: GridFlags = _NO_GRID,
    rank: Annotated[
        str | None,
        Parameter(metavar="N", help="This rank only.", group=_SHOWN, show_default=False),
    ] = None,
    node: Annotated[
        str | None,
        Parameter(metavar="N", help="This node only.", group=_SHOWN, show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Print where every rank sits: node, coordinates, groups, and the links they cross.

    Ranks are numbered as torchrun numbers them, and laid out as Megatron lays them out:
    tp is the fastest axis, then cp, dp and pp.
    """
    from tonnage.report.ranks import layout_json, print_layout

    machine = cluster.read()
    mesh = grid.read(machine.gpus)
    wanted = _wanted(machine, rank, node)
    if as_json:
        print_json(layout_json(machine, mesh, wanted))
    else:
        print_layout(machine, mesh, wanted)
    return 0


def _wanted(cluster: Cluster, rank: str | None, node: str | None) -> Sequence[int]:
    """The ranks that are asked for; of a cluster too large to list, those of node 0."""
    from tonnage.cli.values import whole

    per_node = min(cluster.gpus, cluster.gpus_per_node)
    if rank is not None:
        if node is not None:
            raise InputError(field="node", value=node, problem="is already decided by rank")
        index = _index("rank", whole("rank", rank), cluster.gpus)
        return range(index, index + 1)
    if node is None and cluster.gpus <= MOST_RANKS:
        return range(cluster.gpus)
    index = 0 if node is None else _index("node", whole("node", node), cluster.nodes)
    return range(index * per_node, index * per_node + min(per_node, MOST_RANKS))


def _index(field: str, value: int, count: int) -> int:
    if 0 <= value < count:
        return value
    raise InputError(
        field=field,
        value=value,
        problem=f"is none of the {count} {field}s",
        accepted=f"0 to {count - 1}",
    )
