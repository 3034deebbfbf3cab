from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cluster import Cluster, find_device
from tonnage.errors import InputError
from tonnage.mesh import (
    Axis,
    Mesh,
    axes,
    axis_link,
    crosses,
    group_link,
    launch,
    ranks,
    ranks_inside,
)

DENSE_GRID = ("tp", "cp", "dp", "pp")
EXPERT_GRID = ("etp", "ep", "edp", "pp")

H100 = Cluster.of(find_device("H100"), 64)
SCALE_UP, NETWORK = H100.scale_up, H100.network


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    degree = st.sampled_from([1, 2, 3, 4, 6])
    tp, cp, dp, pp = (draw(degree) for _ in range(4))
    stage = tp * cp * dp
    etp = draw(st.sampled_from([n for n in range(1, stage + 1) if stage % n == 0]))
    rest = stage // etp
    ep = draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
    return Mesh(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp)


@given(mesh=meshes())
def test_the_groups_of_every_axis_partition_the_world(mesh: Mesh) -> None:
    for name, axis in mesh.axes.items():
        groups = mesh.groups(name)
        assert all(len(group) == axis.size for group in groups)
        assert sorted(rank for group in groups for rank in group) == list(range(mesh.world))
        assert [group[0] for group in groups] == sorted(group[0] for group in groups)


@given(mesh=meshes())
def test_a_group_is_the_ranks_that_differ_on_its_axis_alone(mesh: Mesh) -> None:
    for grid in (DENSE_GRID, EXPERT_GRID):
        for name in grid:
            for group in mesh.groups(name):
                places = [mesh.coordinates(rank) for rank in group]
                assert [place[name] for place in places] == list(range(len(group)))
                for other in set(grid) - {name}:
                    assert len({place[other] for place in places}) == 1


@given(mesh=meshes(), data=st.data())
def test_coordinates_name_one_rank_on_either_grid(mesh: Mesh, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, mesh.world - 1))
    place = mesh.coordinates(rank)
    assert mesh.rank(**{name: place[name] for name in DENSE_GRID}) == rank
    assert sum(place[name] * mesh.axes[name].stride for name in EXPERT_GRID) == rank
    assert place["dp_cp"] == place["dp"] * mesh.cp + place["cp"]


@given(mesh=meshes())
def test_a_stage_holds_the_same_ranks_on_both_grids(mesh: Mesh) -> None:
    stage = mesh.world // mesh.pp
    for index in range(mesh.pp):
        first = mesh.stage_first_rank(index)
        assert first == index * stage
        assert {mesh.coordinates(rank)["pp"] for rank in range(first, first + stage)} == {index}


def test_megatron_s_own_example() -> None:
    """The 16 ranks of the docstring of Megatron's `initialize_model_parallel`: tp 2, pp 4."""
    mesh = Mesh(tp=2, dp=2, pp=4)
    assert mesh.groups("tp") == [[rank, rank + 1] for rank in range(0, 16, 2)]
    assert mesh.groups("dp") == [
        [0, 2],
        [1, 3],
        [4, 6],
        [5, 7],
        [8, 10],
        [9, 11],
        [12, 14],
        [13, 15],
    ]
    assert mesh.groups("pp") == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]


def test_experts_have_a_grid_of_their_own() -> None:
    mesh = Mesh(tp=4, dp=4, pp=2, ep=8, etp=1)
    assert mesh.axes["edp"] == Axis(name="edp", size=2, stride=8)
    assert mesh.groups("ep")[0] == list(range(8))
    assert mesh.groups("edp")[0] == [0, 8]


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        ({"tp": 0}, "tp: 0 is not a positive whole number (accepted: 1 or more)"),
        ({"dp": 2.0}, "dp: 2.0 is not a positive whole number (accepted: 1 or more)"),
        (
            {"dp": 4, "ep": 8},
            "ep: 8 times etp 1 does not divide the 4 ranks of a stage "
            "(accepted: a divisor of tp * cp * dp = 4)",
        ),
    ],
)
def test_what_is_no_mesh(degrees: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Mesh(**degrees)
    assert caught.value.message == message


def test_a_rank_outside_the_world_has_no_coordinates() -> None:
    with pytest.raises(InputError, match=r"rank: 8 is none of the 8 ranks \(accepted: 0 to 7\)"):
        Mesh(dp=8).coordinates(8)


@given(mesh=meshes(), domain=st.sampled_from([1, 2, 4, 8, 72]))
def test_ranks_inside_is_what_counting_gives_where_blocks_fill_domains(
    mesh: Mesh, domain: int
) -> None:
    for name, axis in mesh.axes.items():
        aligned = domain % axis.span == 0 or (
            axis.span % domain == 0 and (domain % axis.stride == 0 or axis.stride % domain == 0)
        )
        if aligned:
            group = mesh.groups(name)[0]
            counted = sum(rank // domain == group[0] // domain for rank in group)
            assert ranks_inside(axis, domain) == counted
            assert crosses(axis, domain) == (counted < axis.size)


def test_a_rack_of_72_keeps_a_wide_group_off_the_network() -> None:
    rack = Cluster.of(find_device("GB200"), 144)
    wide = Axis(name="ep", size=64, stride=1)
    assert not crosses(wide, rack.scale_up_domain)
    assert crosses(wide, H100.scale_up_domain)


def test_columns_are_scalars_one_by_one() -> None:
    tp, dp = np.array([1, 2, 4, 8, 8]), np.array([64, 32, 16, 8, 1])
    columns = axes(tp=tp, dp=dp, pp=2, ep=1)
    for name, column in columns.items():
        scalars = [axes(tp=int(t), dp=int(d), pp=2)[name] for t, d in zip(tp, dp, strict=True)]
        count = len(scalars)

        def spread(value: Any, count: int = count) -> list[Any]:
            return list(np.broadcast_to(value, count).tolist())

        assert spread(column.size) == [axis.size for axis in scalars]
        assert spread(column.stride) == [axis.stride for axis in scalars]
        assert spread(ranks_inside(column, 8)) == [ranks_inside(axis, 8) for axis in scalars]


def test_symbols_give_the_formula() -> None:
    t, c, d = sympy.symbols("t c d", integer=True, positive=True)
    found = axes(tp=t, cp=c, dp=d, ep=2, etp=1)
    assert found["dp"].stride == t * c
    assert found["edp"].size == t * c * d / 2
    inside = ranks_inside(found["dp"], 8)
    for degrees in ((1, 1, 8), (8, 1, 8), (2, 2, 4), (8, 1, 1)):
        values = dict(zip((t, c, d), degrees, strict=True))
        axis = axes(tp=degrees[0], cp=degrees[1], dp=degrees[2])["dp"]
        assert inside.subs(values) == ranks_inside(axis, 8)


def test_an_axis_knows_its_span() -> None:
    assert Axis(name="dp", size=4, stride=8).span == 32


def test_ranks_as_torchrun_numbers_them() -> None:
    cluster = Cluster.of(find_device("H100"), 16)
    placed = list(ranks(cluster, Mesh(tp=4, dp=2, pp=2)))
    assert [rank.rank for rank in placed] == list(range(16))
    assert [(rank.node, rank.local_rank) for rank in placed] == [
        (node, local) for node in range(2) for local in range(8)
    ]
    ninth = placed[9]
    assert {name: place.position for name, place in ninth.axes.items() if place.position} == {
        "tp": 1,
        "pp": 1,
        "edp": 1,
    }
    assert list(ninth.axes["tp"].members) == [8, 9, 10, 11]
    assert list(ninth.axes["pp"].members) == [1, 9]
    assert ninth.axes["tp"].link == cluster.scale_up
    assert ninth.axes["pp"].link == cluster.network
    assert ninth.axes["cp"].link is None


def test_what_torchrun_is_told() -> None:
    told = launch(Cluster.of(find_device("H100"), 16))
    assert (told.nnodes, told.nproc_per_node, told.world_size) == (2, 8, 16)
    assert told.command == (
        "torchrun --nnodes 2 --nproc-per-node 8 "
        '--node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port 29500'
    )
    assert launch(Cluster.of(find_device("H100"), 3)).nproc_per_node == 3


def test_ranks_of_another_world_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        ranks(H100, Mesh(tp=4))
    assert caught.value.message == (
        "gpus: 64 is not the number of ranks: tp * cp * dp * pp = 4 (accepted: 4)"
    )
    with pytest.raises(InputError, match="rank: 64 is none of the 64 ranks"):
        list(ranks(H100, Mesh(dp=64), [64]))


def test_one_rank_of_millions_costs_no_more_than_one() -> None:
    cluster = Cluster.of(find_device("H100"), 8_000_000)
    (last,) = ranks(cluster, Mesh(tp=8, dp=1_000_000), [7_999_999])
    assert (last.node, last.local_rank) == (999_999, 7)
    assert len(last.axes["dp"].members) == 1_000_000


@given(mesh=meshes())
def test_the_group_of_a_rank_is_the_one_that_holds_it(mesh: Mesh) -> None:
    for name in mesh.axes:
        for group in mesh.groups(name):
            assert all(list(mesh.group(name, rank)) == group for rank in group)


@given(mesh=meshes(), domain=st.sampled_from([1, 2, 3, 4, 6, 8, 72]))
def test_the_link_of_an_axis_is_the_slowest_of_its_groups(mesh: Mesh, domain: int) -> None:
    cluster = Cluster.of(find_device("H100"), 1).override(
        gpus_per_node=mesh.world, gpus=mesh.world, scale_up_domain=domain
    )
    for name, axis in mesh.axes.items():
        links = {
            link
            for group in mesh.groups(name)
            if (link := group_link(range(group[0], group[-1] + 1, axis.stride), cluster))
        }
        found = axis_link(axis, cluster)
        if axis.size == 1:
            assert found is None
        else:
            assert found == (cluster.network if cluster.network in links else cluster.scale_up)
