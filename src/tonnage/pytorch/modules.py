"""Which module is running: in forward by hooks, in backward by the age of autograd's nodes.

Autograd numbers its nodes as they are made. A forward pass notes the number at which each
module begins and ends, and a node of the backward pass then belongs to the module whose
interval its number falls into. Nothing is attached to tensors, so nothing lives longer.
"""

from __future__ import annotations

from bisect import bisect_right
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.modules import module as hooks

_WRAPPED = "._checkpoint_wrapped_module"
"""What a checkpoint's wrapper adds to a path."""


class ModulePaths:
    """The path of the running module, such as ``LlamaForCausalLM.model.layers.0.mlp``."""

    def __init__(self) -> None:
        self._names: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._stack: list[str] = []
        self._starts: list[int] = []
        self._paths: list[str] = []
        self._handles: list[Any] = []

    def __enter__(self) -> ModulePaths:
        """Follow every module from here on."""
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begin),
            hooks.register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop following."""
        for handle in self._handles:
            handle.remove()

    @property
    def inside(self) -> bool:
        """Whether a module's forward pass is running."""
        return bool(self._stack)

    @property
    def current(self) -> str:
        """Path of the innermost module whose forward pass runs; empty: none does."""
        return self._stack[-1] if self._stack else ""

    def of_node(self, node: Any) -> str:
        """Path of the module in whose forward pass autograd made a node."""
        place = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._paths[place] if place >= 0 else ""

    def _begin(self, module: torch.nn.Module, _: Any) -> None:
        if module not in self._names:
            root = _class_name(module)
            for name, child in module.named_modules():
                name = name.replace(_WRAPPED, "")
                self._names.setdefault(child, f"{root}.{name}" if name else root)
        self._stack.append(self._names[module])
        self._mark()

    def _end(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        # An exception may have skipped modules inside: checkpointing stops early so.
        name = self._names.get(module, "")
        while self._stack and self._stack.pop() != name:
            pass
        self._mark()

    def _mark(self) -> None:
        number = torch._C._autograd._get_sequence_nr()
        self._starts.append(number)
        self._paths.append(self.current)


def _class_name(module: torch.nn.Module) -> str:
    """The name of its class; ``fully_shard`` puts one of its own before it."""
    own = type(module)
    return (own.__mro__[2] if issubclass(own, FSDPModule) else own).__name__
