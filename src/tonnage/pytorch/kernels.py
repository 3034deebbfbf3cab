"""Attention as a CUDA device runs it, for models whose tensors are fake.

A fake tensor here lives on the CPU, whose attention kernel is another one. PyTorch's CUDA
kernels have shape functions and autograd formulas all the same, so calling their operators
directly saves the very tensors that a run on a GPU would, and PyTorch's counter knows their
FLOPs. Windows and soft caps are arguments of the kernel and change neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch
from transformers import AttentionInterface

NAME: Final = "tonnage_cuda_kernels"
"""What ``attn_implementation`` calls it. No mask is registered under it, so none is made."""


def cuda_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention with the kernel that a GPU would take, in the signature of transformers.

    Flash attention where keys and values are equally wide; else the memory-efficient
    kernel, which takes both widths (latent attention). Autocast casts what attention reads,
    as it does for PyTorch's own attention function.
    """
    del attention_mask
    if torch.is_autocast_enabled("cpu"):
        narrow = torch.get_autocast_dtype("cpu")
        query, key, value = (part.to(narrow) for part in (query, key, value))
    causal = bool(getattr(module, "is_causal", True))
    if key.shape[-1] == value.shape[-1]:
        context = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout, causal
        )[0]
    else:
        context = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, None, True, dropout, causal
        )[0]
    return context.transpose(1, 2).contiguous(), None


@contextmanager
def grouped_products(weights: torch.dtype) -> Iterator[None]:
    """Let a mixture of experts multiply in groups whatever the format of its weights.

    PyTorch's grouped product has a shape function for bf16 alone. For others transformers
    has an operator of its own, which keeps the same tensors.
    """
    if weights == torch.bfloat16:
        yield
        return
    with patch("transformers.integrations.moe._can_use_grouped_mm", return_value=False):
        yield


def product_flops(func: Any, args: Any) -> int:
    """FLOPs of a grouped product, which PyTorch's counter does not know; 0 for all else.

    Each row meets one expert: ``2 · rows · in · out``, whichever of the two products of
    backward it is; the fallback of transformers makes both in one operator.
    """
    name = func._opname
    if name == "_grouped_mm":
        left, right = args[0], args[1]
        return 2 * int(left.shape[0] * left.shape[1] * right.shape[-1])
    if name == "grouped_mm_fallback":
        return 2 * int(args[0].shape[0] * args[1].shape[1] * args[1].shape[2])
    if name == "grouped_mm_fallback_backward":
        return 4 * int(args[0].shape[0] * args[1].shape[1] * args[1].shape[2])
    return 0


def register() -> None:
    """Make the kernels known to transformers."""
    AttentionInterface.register(NAME, cuda_attention)
