"""Records every allocation and release of a piece of PyTorch code, on fake tensors.

A dispatch mode sees each operator below autograd. A storage that it has not seen before is
an allocation, and a weak reference tells of its release; views and in-place operators bring
no new storage. What a kernel allocates inside itself is not seen.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass_type,
)
from torch.utils.flop_counter import flop_registry

from tonnage.pytorch.collectives import collective_call
from tonnage.pytorch.distributed import LENT, distributed_seen_right, lent_by, local_tensor
from tonnage.pytorch.kernels import product_flops
from tonnage.pytorch.modules import ModulePaths
from tonnage.pytorch.trace import Allocation, Category, CollectiveCall, Phase, Trace
from tonnage.pytorch.values import stand_in

_SKIPPED = frozenset({torch.ops.prim.device.default})


@dataclass(kw_only=True)
class _Storage:
    """A storage as it is being recorded."""

    bytes: int
    operator: str
    module: str
    phase: Phase
    shape: tuple[int, ...]
    format: str
    born: int = 0
    died: int | None = None
    category: Category | None = None
    saver: str | None = None

    def finished(self) -> Allocation:
        return Allocation(
            bytes=self.bytes,
            category=self.category or "temporary",
            operator=self.operator,
            module=self.module,
            saver=self.saver,
            phase=self.phase,
            born=self.born,
            died=self.died,
            shape=self.shape,
            format=self.format,
        )


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Records while it is entered; use `record`, which enters what it needs."""

    def __init__(self, modules: ModulePaths) -> None:
        super().__init__()
        self.modules = modules
        self._clock = 0
        self._storages: list[_Storage] = []
        self._alive: dict[int, _Storage] = {}
        self._last: dict[int, _Storage] = {}
        self._paused = False
        self._making: Category | None = None
        self._watchers: dict[int, Any] = {}
        self._phases: list[tuple[int, Phase]] = []
        self._flops: Counter[tuple[str, Phase]] = Counter()
        self._collectives: list[CollectiveCall] = []
        self._notes: dict[str, None] = {}
        self._named: Phase | None = None
        self._parameters: weakref.WeakValueDictionary[int, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )

    def trace(self) -> Trace:
        """What was recorded so far."""
        self._mark_gradients(self._parameters.values())
        return Trace(
            allocations=tuple(storage.finished() for storage in self._storages),
            phases=tuple(self._phases),
            flops=dict(self._flops),
            collectives=tuple(self._collectives),
            notes=tuple(self._notes),
        )

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Name the part of the step that runs inside, where it is not backward or the step."""
        before, self._named = self._named, name
        try:
            yield
        finally:
            self._named = before

    def adopt(self, tensors: Iterable[torch.Tensor], category: Category) -> None:
        """Say what some tensors are."""
        for tensor in tensors:
            self._note_tensor(tensor, "outside").category = category

    def adopt_module(self, module: torch.nn.Module) -> None:
        """Take a model's parameters and buffers into the record."""
        self.adopt(module.buffers(), "buffer")
        self._adopt_parameters(module.parameters())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what runs inside: work that no device would be given."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    @contextmanager
    def making(self, category: Category) -> Iterator[None]:
        """Say what the storages are that are made inside."""
        before, self._making = self._making, category
        try:
            yield
        finally:
            self._making = before

    def _adopt_parameters(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            local = local_tensor(parameter)
            known = self._alive.get(_key(local))
            if known is None or known.category not in LENT:
                self._parameters[id(parameter)] = parameter
                self.adopt([local], "parameter")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and note what it allocates, counts and sends."""
        kwargs = kwargs or {}
        if func in _SKIPPED or self._paused:
            return func(*args, **kwargs)
        if any(is_traceable_wrapper_subclass_type(t) for t in types):
            return NotImplemented  # the operators inside come by on their own
        phase = self._enter_phase()
        number = stand_in(func, args, phase, self._notes)
        if number is not None:
            return number
        module = self._module(phase)
        self._note_inputs(args, kwargs)
        result = func(*args, **kwargs)
        for leaf in _tensors((result,)):
            if _has_storage(leaf):
                self._note_tensor(leaf, str(func), module=module, phase=phase)
        for leaf, category in lent_by(func, args, kwargs):
            self.adopt([leaf], category)
        self._count(func, args, kwargs, result, module, phase)
        return result

    def resized(self, storage: torch.UntypedStorage) -> None:
        """A storage that is known has another size now: it was given back, or brought back."""
        key = int(storage._cdata)
        known = self._last.get(key)
        if known is None:
            return
        if key in self._alive:
            self._end(key)
        if storage.nbytes():
            self._begin(key, dataclasses.replace(known, bytes=int(storage.nbytes()), died=None))

    def saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Autograd keeps a tensor: note for whom, unless another module keeps it already."""
        own = local_tensor(tensor)
        storage = self._alive.get(_key(own)) if _has_storage(own) else None
        if storage is not None and storage.saver is None:
            storage.saver = self.modules.current
        return tensor

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """Gradients are where parameters point when a step begins."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._adopt_parameters(parameters)
        self._mark_gradients(parameters)
        self._named = "step"

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Optimizer states are what the optimizer holds when its step ends."""
        self._named = None
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    counter = value.dim() == 0
                    kind: Category = "step counter" if counter else "optimizer state"
                    self.adopt([local_tensor(value)], kind)

    def _enter_phase(self) -> Phase:
        phase = self._current_phase()
        before = self._phases[-1][1] if self._phases else "outside"
        if phase != before:
            if phase == "backward" and before not in ("recompute", "step"):
                self._mark_activations()
            self._phases.append((self._clock + 1, phase))
        return phase

    def _current_phase(self) -> Phase:
        if self._named == "step":
            return "step"
        if torch._C._current_autograd_node() is not None:
            return "recompute" if self.modules.inside else "backward"
        if self._named is not None:
            return self._named
        return "forward" if self.modules.inside else "outside"

    def _module(self, phase: Phase) -> str:
        if phase == "backward":
            return self.modules.of_node(torch._C._current_autograd_node())
        return self.modules.current

    def _mark_activations(self) -> None:
        """A backward pass begins: what its forward pass made and is alive is kept for it."""
        for storage in self._alive.values():
            made_forward = storage.phase in ("forward", "loss") or storage.saver is not None
            if made_forward and storage.category is None:
                storage.category = "activation"

    def _mark_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                self.adopt([local_tensor(parameter.grad)], "gradient")

    def _note_inputs(self, args: Any, kwargs: Any) -> None:
        for leaf in _tensors((args, kwargs)):
            if _has_storage(leaf):
                storage = self._alive.get(_key(leaf))
                if isinstance(leaf, torch.nn.Parameter):
                    self._adopt_parameters([leaf])
                elif storage is None:
                    self._note_tensor(leaf, "outside").category = "input"

    def _note_tensor(
        self, tensor: torch.Tensor, operator: str, *, module: str = "", phase: Phase = "outside"
    ) -> _Storage:
        """The record of a tensor's storage, made where it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._alive.get(key)
        if known is not None:
            return known
        record = _Storage(
            bytes=int(storage.nbytes()),
            operator=operator,
            module=module,
            phase=phase,
            shape=tuple(tensor.shape),
            format=str(tensor.dtype).removeprefix("torch."),
            category=self._making,
        )
        self._watchers[key] = weakref.ref(storage, lambda _: self._release(key))
        return self._begin(key, record)

    def _begin(self, key: int, record: _Storage) -> _Storage:
        self._clock += 1
        record.born = self._clock
        self._storages.append(record)
        self._alive[key] = self._last[key] = record
        return record

    def _end(self, key: int) -> None:
        self._clock += 1
        self._alive.pop(key).died = self._clock

    def _release(self, key: int) -> None:
        if key in self._alive:
            self._end(key)
        del self._watchers[key], self._last[key]

    def _count(
        self, func: Any, args: Any, kwargs: Any, result: Any, module: str, phase: Phase
    ) -> None:
        formula = flop_registry.get(func._overloadpacket)
        flops = formula(*args, **kwargs, out_val=result) if formula else product_flops(func, args)
        if flops:
            self._flops[module, phase] += int(flops)
        call = collective_call(func, args, kwargs, phase, module)
        if call is not None:
            self._collectives.append(call)


@contextmanager
def record(*, fake: bool = True) -> Iterator[Recorder]:
    """Record the code inside; ``trace()`` of what is yielded is the result.

    Args:
        fake: make every tensor fake: shapes and formats without storage, so that a model
            of any size fits. The model has to be built inside too.
    """
    modules = ModulePaths()
    recorder = Recorder(modules)
    handles = (
        register_optimizer_step_pre_hook(recorder.before_step),
        register_optimizer_step_post_hook(recorder.after_step),
    )
    keep = torch.autograd.graph.saved_tensors_hooks(recorder.saved, lambda tensor: tensor)
    try:
        with ExitStack() as stack:
            if fake:
                stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            for manager in (
                modules,
                keep,
                recorder,
                _resizes(recorder),
                distributed_seen_right(recorder),
            ):
                stack.enter_context(manager)
            yield recorder
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _resizes(recorder: Recorder) -> Iterator[None]:
    """Tell of storages that change their size, which passes by no operator (FSDP2 does so)."""
    resize = torch.UntypedStorage.resize_

    def watched(storage: torch.UntypedStorage, size: int) -> Any:
        done = resize(storage, size)
        recorder.resized(storage)
        return done

    with patch.object(torch.UntypedStorage, "resize_", watched):
        yield


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among an operator's arguments or results, which nest in these three ways."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds bytes: one on the meta device (a kernel's random state) does not."""
    return (
        tensor.layout == torch.strided
        and tensor.device.type != "meta"
        and not is_traceable_wrapper_subclass_type(type(tensor))
    )


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
