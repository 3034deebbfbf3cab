"""A world of ranks in one process: PyTorch's fake process group, which sends nothing.

Rank 0 runs. Every group of it has the size that it would have, so that what is sharded,
gathered and reduced has its true shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from tonnage.errors import InputError
from tonnage.plan import Setting

REPLICATE, SHARD, TENSOR = "replicate", "shard", "tp"
"""Axes of the mesh: copies of the shards, the shards, and the tensor-parallel ranks."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The ranks of a plan.

    Attributes:
        mesh: PyTorch's ``DeviceMesh``, ``[replicate, shard, tp]``.
        copies: ranks along ``replicate``.
        shards: ranks along ``shard``.
        tp: ranks along ``tp``.
    """

    mesh: Any
    copies: int
    shards: int
    tp: int

    @property
    def data(self) -> Any:
        """The mesh that ``fully_shard`` takes: two-dimensional where shards have copies."""
        return self.mesh[REPLICATE, SHARD] if self.copies > 1 else self.mesh[SHARD]

    @property
    def tensor(self) -> Any:
        """The mesh of the tensor-parallel ranks."""
        return self.mesh[TENSOR]


@contextmanager
def fake_world(setting: Setting) -> Iterator[World]:
    """The process groups of a plan, for as long as the context lasts.

    Enter it before tensors are fake: a mesh is made of real ones.

    Raises:
        InputError: this process is part of another world already.
    """
    # Registers the back end "fake".
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if distributed.is_initialized():
        raise InputError(
            field="dry run",
            value=f"a process group of {distributed.get_world_size()}",
            problem="is there already, and a dry run makes a world of its own",
            accepted="a process without one",
            hint="call torch.distributed.destroy_process_group() first",
        )
    shards, tp = int(setting.shard), int(setting.tp)
    copies = int(setting.replicas) // shards
    distributed.init_process_group(
        "fake", rank=0, world_size=copies * shards * tp, store=FakeStore()
    )
    try:
        mesh = distributed.device_mesh.init_device_mesh(
            torch.device("cpu").type,
            (copies, shards, tp),
            mesh_dim_names=(REPLICATE, SHARD, TENSOR),
        )
        yield World(mesh=mesh, copies=copies, shards=shards, tp=tp)
    finally:
        distributed.destroy_process_group()
        _forget_meshes()


def _forget_meshes() -> None:
    """Empty DTensor's caches: groups are known by their place in a world, which the next reuses."""
    from torch.distributed.tensor import _redistribute
    from torch.distributed.tensor._collective_utils import MeshTopoInfo
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache

    _clear_sharding_prop_cache()
    _redistribute.clear_redistribute_planner_cache()
    _redistribute._gen_transform_infos.cache_clear()
    MeshTopoInfo.build_from_mesh.cache_clear()
