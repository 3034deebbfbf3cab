"""Attention as a CUDA device runs it, for models whose tensors are fake.

A fake tensor here lives on the CPU, whose attention kernel is another one. PyTorch's CUDA
kernels have shape functions and autograd formulas all the same, so calling their operators
directly saves the very tensors that a run on a GPU would, and PyTorch's counter knows their
FLOPs. Windows and soft caps are arguments of the kernel and change neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    """Attention with the kernel that a GPU would take, in the signature of transformers."""
    del attention_mask
    causal = bool(getattr(module, "is_causal", True))
    return flash_or_efficient(query, key, value, dropout, causal=causal).contiguous(), None


def flash_or_efficient(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, *, causal: bool
) -> torch.Tensor:
    """The context ``[batch, seq, heads, width]`` of heads ``[batch, heads, seq, width]``.

    Flash attention where keys and values are equally wide; else the memory-efficient kernel,
    which takes both widths. Both write the sequence before the heads. Autocast casts what
    they read, as it does for PyTorch's own attention function.
    """
    if torch.is_autocast_enabled("cpu"):
        narrow = torch.get_autocast_dtype("cpu")
        query, key, value = (part.to(narrow) for part in (query, key, value))
    if key.shape[-1] == value.shape[-1]:
        context = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout, causal
        )[0]
    else:
        context = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, None, True, dropout, causal
        )[0]
    return context.transpose(1, 2)


@contextmanager
def cuda_operators(weights: torch.dtype) -> Iterator[None]:
    """Let dropout and the products of experts keep what they keep on a CUDA device.

    Args:
        weights: format of the model's weights. PyTorch's grouped product has a shape function
            for bf16 alone, so that others need a stand-in.
    """
    with ExitStack() as stack:
        stack.enter_context(patch("torch.nn.functional.dropout", _dropout))
        if weights != torch.bfloat16:
            stack.enter_context(patch("transformers.integrations.moe._grouped_mm", _grouped))
        yield


def _dropout(
    input: torch.Tensor,  # noqa: A002 - PyTorch's own name
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> torch.Tensor:
    """Dropout as CUDA has it, with a mask of one byte an element; the CPU's is as wide as x."""
    del inplace
    return torch.native_dropout(input, p, training)[0] if training and p > 0 else input


class _GroupedProduct(torch.autograd.Function):  # type: ignore[misc]
    """A product of rows with the experts' matrices: each row meets one of them.

    It costs what a product with any one of them costs; the gradient has all of them.
    torch.autocast does not know grouped products.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, weight, ends)
        with torch.autocast("cpu", enabled=False):
            return rows @ weight[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        rows, weight, _ = ctx.saved_tensors
        torch.mm(rows.t(), gradient)
        return gradient @ weight[0].t(), torch.empty_like(weight), None


def _grouped(rows: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = _GroupedProduct.apply(rows.to(weight.dtype), weight, offs)
    return product


def product_flops(func: Any, args: Any) -> int:
    """FLOPs of a grouped product, which PyTorch's counter does not know; 0 for all else.

    ``2 · rows · in · out``, whichever of the products of forward and backward it is.
    """
    if func._opname != "_grouped_mm":
        return 0
    left, right = args[0], args[1]
    return 2 * int(left.shape[0] * left.shape[1] * right.shape[-1])


def register() -> None:
    """Make the kernels known to transformers."""
    AttentionInterface.register(NAME, cuda_attention)
