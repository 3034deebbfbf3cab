"""Layouts of images in memory: which operations copy to change them, and what that costs.

A tensor ``[batch, channels, height, width]`` lies with its channels first (``contiguous``) or
last (``channels_last``). cuDNN runs a convolution in one layout for all that it reads:
channels last as soon as the input or the weight is (``cudnn_conv_suggest_memory_format`` in
``aten/src/ATen/native/ConvUtils.h``), and what lies otherwise is copied first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tonnage.cluster import Device
from tonnage.errors import NotModelledError
from tonnage.pytorch.modules import ModulePaths

MemoryFormat: TypeAlias = Literal["channels_last", "contiguous", "preserve"]

WITHOUT_CHANNELS_LAST: Final = {
    "Huawei": "torch_npu takes contiguous_format and preserve_format only, and lays tensors out "
    "in formats of its own (NC1HWC0) where its kernels want them"
}
"""Makers whose PyTorch refuses channels_last, and why."""

_FORMATS: Final = {
    "channels_last": torch.channels_last,
    "contiguous": torch.contiguous_format,
}
_CONVOLUTIONS: Final = frozenset(
    {torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default}
)
_COPIES: Final = frozenset({torch.ops.aten.clone.default, torch.ops.aten._to_copy.default})


@dataclass(frozen=True, kw_only=True)
class LayoutCopy:
    """One tensor copied into another layout.

    Attributes:
        operator: what asked for it.
        module: path of the module that was running; empty in backward.
        shape: of the tensor.
        layout: the layout that it is copied into.
        bytes: of the copy.
    """

    operator: str
    module: str
    shape: tuple[int, ...]
    layout: str
    bytes: int


class LayoutWatch(TorchDispatchMode):  # type: ignore[misc]
    """Notes the copies of the code inside; enter it within a recorder.

    Attributes:
        copies: in the order of the step.
    """

    def __init__(self, modules: ModulePaths) -> None:
        super().__init__()
        self.copies: list[LayoutCopy] = []
        self._modules = modules

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and note what it copies."""
        result = func(*args, **(kwargs or {}))
        for tensor, layout in _copied(func, args, result):
            self.copies.append(
                LayoutCopy(
                    operator=str(func).removesuffix(".default"),
                    module=self._modules.current,
                    shape=tuple(tensor.shape),
                    layout=layout,
                    bytes=int(tensor.numel() * tensor.element_size()),
                )
            )
        return result


def check_layout(device: Device, layout: MemoryFormat) -> None:
    """Refuse a layout that a device's PyTorch does not have.

    Raises:
        NotModelledError: it says why, and what to do instead.
    """
    reason = WITHOUT_CHANNELS_LAST.get(device.vendor)
    if layout == "channels_last" and reason is not None:
        raise NotModelledError(
            field="memory_format",
            value=layout,
            problem=f"is not there on {device.name}: {reason}",
            accepted="contiguous or preserve",
            hint="leave the model contiguous; its convolutions change layout by themselves",
        )


def laid_out(model: torch.nn.Module, batch: Any, layout: MemoryFormat) -> Any:
    """Put a model's weights into a layout, in place, and return its batch in the same.

    A fake weight cannot be moved under its name (``Module.to``), so that it is replaced.
    """
    if layout == "preserve":
        return batch
    wanted = _FORMATS[layout]

    def moved(leaf: Any) -> Any:
        image = isinstance(leaf, torch.Tensor) and leaf.dim() == 4
        return leaf.contiguous(memory_format=wanted) if image else leaf

    weights: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight not in weights:
                trains = weight.requires_grad
                weights[weight] = torch.nn.Parameter(moved(weight.detach()), requires_grad=trains)
            setattr(module, name, weights[weight])
    return tree_map(moved, batch)


def layout_of(tensor: torch.Tensor) -> str | None:
    """The layout of an image tensor; None: none, another one, or both at once."""
    if tensor.dim() != 4:
        return None
    first = tensor.is_contiguous()
    last = tensor.is_contiguous(memory_format=torch.channels_last)
    if first == last:
        return None
    return "contiguous" if first else "channels_last"


def _reordered(read: torch.Tensor, wrote: torch.Tensor) -> bool:
    """Whether a copy has its elements in another order; a broadcast one has others as well."""
    steps = [
        (before, after)
        for size, before, after in zip(read.shape, read.stride(), wrote.stride(), strict=True)
        if size > 1
    ]
    return all(before for before, _ in steps) and any(before != after for before, after in steps)


def _copied(func: Any, args: Any, result: Any) -> Iterator[tuple[torch.Tensor, str]]:
    if func in _COPIES and _reordered(args[0], result):
        yield result, layout_of(result) or ("contiguous" if result.is_contiguous() else "another")
    if func not in _CONVOLUTIONS:
        return
    reads = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    layouts = [layout_of(tensor) for tensor in reads]
    common = "channels_last" if "channels_last" in layouts else "contiguous"
    for tensor, layout in zip(reads, layouts, strict=True):
        if layout is not None and layout != common:
            yield tensor, common
