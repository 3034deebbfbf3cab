"""A dry run of somebody's own training step: ``path/to/file.py:function``.

The file is run, because a person named it. Its function takes nothing and is called where
every new tensor is fake. It returns one of two things:

* a callable without arguments, which runs one training step;
* ``(model, batch, loss)``: the model, whatever it is called with (a tensor, a tuple of
  positional or a dict of keyword arguments), and a function from its output to a scalar.
  Forward, loss and backward are run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tonnage.errors import InputError
from tonnage.pytorch.memory_format import LayoutCopy, LayoutWatch, MemoryFormat, laid_out
from tonnage.pytorch.recorder import Recorder, record
from tonnage.pytorch.trace import Trace
from tonnage.pytorch.user_file import blamed_on, load, within

STEPS = 2
"""How often a step runs: the second finds optimizer states."""


@dataclass(frozen=True, kw_only=True)
class FileRun:
    """What was recorded of somebody's own code.

    Attributes:
        trace: the recording.
        copies: tensors copied into another layout, of the last step; None: nobody asked.
    """

    trace: Trace
    copies: tuple[LayoutCopy, ...] | None


def dry_run_file(
    target: str,
    *,
    steps: int = STEPS,
    memory_format: MemoryFormat | None = None,
    seconds: float | None = None,
) -> FileRun:
    """Record a step of somebody's own code.

    Args:
        target: ``path/to/file.py:function``.
        steps: how often the step runs.
        memory_format: layout that the model and its images are put into, and whose copies are
            noted; ``preserve`` notes them and leaves all as it is.
        seconds: how long the code may take; None: as long as it likes.

    Raises:
        InputError: there is no such file or function, it takes arguments, raises, takes too
            long, or returns something else.
        NotModelledError: the code asks a fake tensor for its values.
    """
    with within(target, seconds):
        prepare = load(target)
        _check_arguments(prepare, target)
        with record() as recorder:
            watch = LayoutWatch(recorder.modules)
            with blamed_on(target):
                made = prepare()
                step = _as_step(made, recorder, target, memory_format)
            for _ in range(steps):
                watch.copies.clear()
                with blamed_on(target), watch if memory_format else nullcontext():
                    step()
            copies = tuple(watch.copies) if memory_format else None
            return FileRun(trace=recorder.trace(), copies=copies)


def _check_arguments(function: Callable[..., Any], target: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise InputError(
            field="MODEL",
            value=target,
            problem=f"cannot be called without arguments ({error})",
            accepted="a function that takes none",
            hint="give its arguments defaults, or name a function that calls it",
        ) from None
    except ValueError:
        return  # one of C, whose arguments nobody can know


def _as_step(
    made: Any, recorder: Recorder, target: str, layout: MemoryFormat | None
) -> Callable[[], Any]:
    if isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], torch.nn.Module):
        model, batch, loss = made
        with recorder.paused():
            batch = laid_out(model, batch, layout or "preserve")
        recorder.adopt_module(model)
        recorder.adopt([t for t in tree_leaves(batch) if isinstance(t, torch.Tensor)], "input")
        return lambda: _forward_backward(recorder, model, batch, loss)
    if not callable(made):
        raise InputError(
            field="MODEL",
            value=target,
            problem=f"returned {type(made).__name__}",
            accepted="a callable that runs one step, or (model, batch, loss)",
        )
    if layout not in (None, "preserve"):
        raise InputError(
            field="memory_format",
            value=layout,
            problem=f"is for the model of {target}, which hides it in a step of its own",
            accepted="preserve, or a function that returns (model, batch, loss)",
        )
    return made  # type: ignore[no-any-return]


def _forward_backward(recorder: Recorder, model: Any, batch: Any, loss: Any) -> None:
    model.zero_grad()
    output = _call(model, batch)
    with recorder.phase("loss"):
        scalar = loss(output)
    del output
    scalar.backward()


def _call(model: Any, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple) else model(batch)
