"""What the recorder has to know of PyTorch's own sharding: FSDP2, DTensor and their buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_leaves

from tonnage.pytorch.trace import Category

LENT: Final[frozenset[Category | None]] = frozenset({"gathered parameter", "communication buffer"})
"""What a sharding engine lends for a while, though a parameter may point into it."""


class Watched(Protocol):
    """What is asked of a recorder here."""

    def paused(self) -> AbstractContextManager[None]:
        """Leave out what runs inside."""
        ...

    def making(self, category: Category) -> AbstractContextManager[None]:
        """Say what the storages are that are made inside."""
        ...


def local_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A distributed tensor's own part; any other tensor itself."""
    local = getattr(tensor, "_local_tensor", tensor)
    assert isinstance(local, torch.Tensor)
    return local


def lent_by(func: Any, args: Any, kwargs: Any) -> list[tuple[torch.Tensor, Category]]:
    """The tensors that an operator of ``fully_shard`` fills, and what they are.

    The gathered units and, in a second copy, the whole parameters cut out of them; then the
    gradients of a unit, laid out to be reduced (``_fsdp_collectives.py``).
    """
    if func.namespace != "fsdp":
        return []
    if func._opname == "all_gather_copy_in":
        return [(args[1], "gathered parameter")]
    category: Category = "gathered parameter"
    if func._opname == "chunk_cat":
        category = "communication buffer"
    out = tree_leaves(kwargs.get("out", ()))
    return [(leaf, category) for leaf in out if isinstance(leaf, torch.Tensor)]


@contextmanager
def distributed_seen_right(recorder: Watched) -> Iterator[None]:
    """Leave out what DTensor and DeviceMesh do for themselves; know whole parameters as such.

    DTensor makes up whole tensors to learn the shapes of its results, and a mesh is a tensor
    whose values, the ranks, have to be real. Of one rank alone FSDP2 copies its parameters
    without the operators of `lent_by`.
    """
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    shapes = "_propagate_tensor_meta_non_cached"
    propagate, make_mesh = getattr(ShardingPropagator, shapes), DeviceMesh.__init__

    def unseen(self: Any, schema: Any) -> Any:
        with recorder.paused():
            return propagate(self, schema)

    def real(self: Any, *args: Any, **kwargs: Any) -> None:
        with recorder.paused(), unset_fake_temporarily():
            make_mesh(self, *args, **kwargs)

    whole = FSDPParam.init_all_gather_outputs

    def gathered(self: Any, *args: Any, **kwargs: Any) -> None:
        with recorder.making("gathered parameter"):
            whole(self, *args, **kwargs)

    with (
        patch.object(FSDPParam, "init_all_gather_outputs", gathered),
        patch.object(ShardingPropagator, shapes, unseen),
        patch.object(DeviceMesh, "__init__", real),
    ):
        yield
