"""Buffers that libraries and stacks keep inside the allocator for as long as a run lasts."""

from __future__ import annotations

from typing import TypeAlias

from tonnage.algebra import Number, exact_div, largest, sample, total, where
from tonnage.arch import Attention, LatentAttention
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger, weights_of
from tonnage.ledger.embedding import token_table
from tonnage.ledger.piece import by_piece
from tonnage.plan import Setting

MIB = 2**20

Shape: TypeAlias = tuple[Number, ...]
"""A weight's name and extents."""


def matmul_workspace(device: str) -> int:
    """PyTorch's default workspace for cuBLAS: 32 MiB on sm90, else 8.125 MiB.

    For hipBLAS 128 MiB on gfx94x and gfx95x, else 32 MiB. aten/src/ATen/cuda/CUDABlas.cpp;
    ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` makes it 32 MiB.
    """
    if device.startswith("gfx"):
        return (128 if device.startswith(("gfx94", "gfx95")) else 32) * MIB
    return 32 * MIB if device.startswith("sm90") else 8 * MIB + MIB // 8


def linear_workspace(device: str) -> int:
    """Transformer Engine's workspace for cuBLASLt: 32 MiB from sm90 on, else 4 MiB."""
    old = device in ("sm70", "sm75", "sm80", "sm86", "sm89")
    return 4 * MIB if old else 32 * MIB


def workspaces(setting: Setting, ledger: StageLedger) -> Number:
    """All of them on one rank of a stage, in bytes."""
    habits = setting.runtime
    products = habits.matmul_workspaces * (
        habits.matmul_workspace or matmul_workspace(setting.device)
    )
    linear = habits.linear_workspaces * linear_workspace(setting.device)
    mask = where(setting.cp > 1, 0, setting.mbs * setting.seq * setting.seq)
    return (
        products
        + linear
        + user_buffers(setting)
        + placeholder_gradients(setting, ledger)
        + (mask if habits.attention_mask else 0)
        + (_score_buffer(setting, ledger) if habits.score_buffer else 0)
    )


OVERLAP_STREAMS = 3
"""Streams of products that tensor-parallel overlap splits a layer's into, each with a workspace
(Transformer Engine ``get_ub_workspace_size`` and ``_NUM_MAX_UB_STREAMS``)."""


def user_buffers(setting: Setting) -> Number:
    """What tensor-parallel overlap holds: workspaces, and a full-width buffer to send from."""
    if not setting.plan.tp_comm_overlap or not setting.sp or not setting.runtime.linear_workspaces:
        return 0
    size = dtype(setting.format).storage(setting.tokens * setting.architecture.hidden)
    held = OVERLAP_STREAMS * linear_workspace(setting.device) + size
    return where(setting.tp > 1, held, 0)


def _score_buffer(setting: Setting, ledger: StageLedger) -> Number:
    """Scores of one layer's unfused attention, written into one buffer by all layers."""
    heads = largest(
        layer.mixer.heads
        for layer in ledger.layers
        if isinstance(layer.mixer, Attention | LatentAttention)
    )
    size = dtype(setting.format).storage(setting.mbs * exact_div(heads, setting.tp))
    return size * setting.seq * setting.seq


def placeholder_gradients(setting: Setting, ledger: StageLedger) -> Number:
    """Cached placeholders that stand for fused weight gradients, one for each distinct shape.

    Transformer Engine and Megatron keep them for good, in the weights' format: gigabytes
    where the weights are wide.
    """
    if not setting.runtime.placeholder_gradients:
        return 0
    found: dict[Shape, Number] = {}
    for operations in (*ledger.layers.values(), ledger.predictors.operations):
        found.update(_placeholders(setting, operations))
    held = total(found.values())
    if ledger.head and setting.trains_base:
        table = token_table(setting)
        held = held + dtype(setting.precision.weights).storage(table.numel)
    return held


@by_piece()
def _placeholders(setting: Setting, operations: Operations) -> dict[Shape, Number]:
    """Bytes of one placeholder for each distinct shape of a piece."""
    size = dtype(setting.precision.weights)
    return {
        (weight.name, *map(sample, weight.shape)): size.storage(weight.shape[0] * weight.shape[1])
        for weight in weights_of(operations)
        if weight.trains and weight.base
    }
