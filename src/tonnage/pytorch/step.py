"""One training step on fake tensors, as a training loop runs it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel

from tonnage.plan import Setting
from tonnage.pytorch.checkpoints import stops_early
from tonnage.pytorch.distributed import local_tensor
from tonnage.pytorch.formats import FORMATS
from tonnage.pytorch.kernels import cuda_operators
from tonnage.pytorch.recorder import Recorder


def run_step(
    recorder: Recorder, model: Any, optimizer: torch.optim.Optimizer, setting: Setting
) -> None:
    """Forward, loss and backward of every micro-batch, then the optimizer's step.

    A later step (``iteration`` steady) finds optimizer states; they are made here without a
    forward pass, by a step whose gradients nobody computed.
    """
    if setting.plan.iteration == "steady":
        _make_states(model, optimizer)
    tokens = torch.zeros(int(setting.mbs), int(setting.seq), dtype=torch.long)
    recorder.adopt([tokens], "input")
    batches = int(setting.grad_acc)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # FSDP2 warns of results that are views, which nothing here writes into.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        stack.enter_context(cuda_operators(FORMATS[setting.precision.weights]))
        stack.enter_context(stops_early(setting))
        if int(setting.tp) > 1:
            stack.enter_context(loss_parallel())
        for index in range(batches):
            with _reduces(model, last=index == batches - 1):
                _loss(recorder, model, tokens, setting).backward()
    with _local_update():
        optimizer.step()
    optimizer.zero_grad()


@contextmanager
def _local_update() -> Iterator[None]:
    """Hand a fused update the rank's own parts of what is sharded.

    That is what DTensor does, after it has found weight by weight that nothing has to move:
    a fifth of the time of a dry run.
    """
    update = torch._fused_adamw_

    def local(*lists: Any, **more: Any) -> None:
        own = [[local_tensor(t) for t in tensors] for tensors in lists]
        update(*own, **more)

    with patch.object(torch, "_fused_adamw_", local):
        yield


def _reduces(model: Any, *, last: bool) -> AbstractContextManager[Any]:
    """DistributedDataParallel reduces with the last micro-batch; FSDP2 with every one."""
    if isinstance(model, DistributedDataParallel) and not last:
        quiet: AbstractContextManager[Any] = model.no_sync()
        return quiet
    return nullcontext()


def _loss(recorder: Recorder, model: Any, tokens: torch.Tensor, setting: Setting) -> Any:
    """The class's own loss. The logits are dropped on return, as a trainer drops them."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    with _autocast(setting):
        logits = model(tokens)
        logits = getattr(logits, "logits", logits)
        with recorder.phase("loss"):
            return inner.loss_function(
                logits=logits, labels=tokens, vocab_size=setting.architecture.vocab
            )


def _autocast(setting: Setting) -> AbstractContextManager[Any]:
    """Fake tensors are on the CPU, and so is the autocast that they obey."""
    casts: AbstractContextManager[Any] = torch.autocast(
        "cpu", FORMATS[setting.precision.compute], enabled=setting.casts
    )
    return casts


def _make_states(model: Any, optimizer: torch.optim.Optimizer) -> None:
    """A step that makes the optimizer's states and leaves out the update."""
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    with patch("torch.optim.adam.adam"):
        optimizer.step()
    optimizer.zero_grad()
