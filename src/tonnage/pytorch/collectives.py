"""Collectives as PyTorch calls them, in the ledger's words."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from tonnage.pytorch.trace import CollectiveCall, Phase

_NAMESPACES: Final = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd"})
_KINDS: Final = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "_allgather_base_": "all_gather",
    "allgather_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast_": "broadcast",
    "broadcast": "broadcast",
    "send": "send",
}


def collective_call(
    func: Any, args: Any, kwargs: Any, phase: Phase, module: str
) -> CollectiveCall | None:
    """The collective that an operator is, or None."""
    if func.namespace not in _NAMESPACES:
        return None
    kind = _KINDS.get(func._opname)
    if kind is None:
        return None
    leaves = tree_leaves((args, kwargs))
    size = max((_bytes(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)), default=0)
    group = _group_size(leaves)
    # A functional collective is given its input alone, which is a shard of what is gathered.
    whole = group if kind == "all_gather" and func.namespace != "c10d" else 1
    return CollectiveCall(kind=kind, bytes=size * whole, group=group, phase=phase, module=module)


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _group_size(leaves: list[Any]) -> int:
    from torch.distributed import ProcessGroup, distributed_c10d

    for leaf in leaves:
        if isinstance(leaf, torch.ScriptObject):
            return int(ProcessGroup.unbox(leaf).size())
    names = [leaf for leaf in leaves if isinstance(leaf, str)]
    return int(distributed_c10d._resolve_process_group(names[-1]).size()) if names else 1
