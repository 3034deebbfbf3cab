"""One training step on fake tensors, as a training loop runs it."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel

from tonnage.plan import Setting
from tonnage.pytorch.checkpoints import stops_early
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
    optimizer.step()
    optimizer.zero_grad()


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
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
