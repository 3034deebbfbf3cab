"""One training step on fake tensors, as a training loop runs it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from tonnage.plan import Setting
from tonnage.pytorch.build import FORMATS
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
    with cuda_operators(FORMATS[setting.precision.weights]):
        for _ in range(int(setting.grad_acc)):
            _loss(recorder, model, tokens, setting).backward()
    optimizer.step()
    optimizer.zero_grad()


def _loss(recorder: Recorder, model: Any, tokens: torch.Tensor, setting: Setting) -> Any:
    """The class's own loss. The logits are dropped on return, as a trainer drops them."""
    with _autocast(setting):
        logits = model(tokens).logits
        with recorder.phase("loss"):
            return model.loss_function(
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
