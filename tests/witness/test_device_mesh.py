"""The grid of ranks beside PyTorch's own `DeviceMesh`, built under a fake process group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tonnage.cluster import Cluster, find_device
from tonnage.mesh import Mesh, ranks

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")

Start = Callable[[int, int], None]

DIMENSIONS = ("pp", "dp", "cp", "tp")

MESHES = [
    Mesh(tp=4, dp=2, pp=2),
    Mesh(tp=2, cp=2, dp=2, pp=2),
    Mesh(tp=8, pp=2),
    Mesh(dp=16),
    Mesh(tp=2, cp=3, dp=4, pp=3),
]


@pytest.fixture
def fake_group() -> Iterator[Start]:
    """Starts a process group of so many ranks, of which only this one exists."""
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")

    def start(rank: int, world: int) -> None:
        store = fake.FakeStore()
        distributed.init_process_group("fake", store=store, rank=rank, world_size=world)

    yield start
    if distributed.is_initialized():
        distributed.destroy_process_group()


def device_mesh(mesh: Mesh) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    shape = tuple(getattr(mesh, name) for name in DIMENSIONS)
    return init_device_mesh("cpu", shape, mesh_dim_names=DIMENSIONS)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_the_grid_is_that_of_pytorch(mesh: Mesh, fake_group: Start) -> None:
    fake_group(0, mesh.world)
    grid = device_mesh(mesh).mesh
    for pp in range(mesh.pp):
        for dp in range(mesh.dp):
            for cp in range(mesh.cp):
                for tp in range(mesh.tp):
                    assert mesh.rank(tp=tp, cp=cp, dp=dp, pp=pp) == int(grid[pp, dp, cp, tp])


@pytest.mark.parametrize("rank", [0, 5, 15])
@pytest.mark.parametrize("mesh", MESHES[:4], ids=str)
def test_places_and_groups_are_those_of_pytorch(mesh: Mesh, rank: int, fake_group: Start) -> None:
    fake_group(rank, mesh.world)
    theirs = device_mesh(mesh)
    (ours,) = ranks(Cluster.of(find_device("H100"), mesh.world), mesh, [rank])
    assert list(theirs.get_coordinate()) == [ours.axes[name].position for name in DIMENSIONS]
    for name in DIMENSIONS:
        group = theirs.get_group(name)
        assert distributed.get_process_group_ranks(group) == list(ours.axes[name].members)
        assert distributed.get_rank(group) == ours.axes[name].position
        assert theirs.get_local_rank(name) == ours.axes[name].position


def test_data_and_context_ranks_flatten_to_the_axis_that_joins_them(fake_group: Start) -> None:
    mesh = Mesh(tp=2, cp=2, dp=4)
    fake_group(3, mesh.world)
    flat = device_mesh(mesh)["dp", "cp"]._flatten("dp_cp")
    (ours,) = ranks(Cluster.of(find_device("H100"), 16), mesh, [3])
    assert flat.mesh.tolist() == list(ours.axes["dp_cp"].members)
