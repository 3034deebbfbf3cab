"""A dry run of somebody's own training step: ``path/to/file.py:function``.

The file is run, because a person named it. Its function takes nothing and is called where
every new tensor is fake. It returns one of two things:

* a callable without arguments, which runs one training step;
* ``(model, batch, loss)``: the model, whatever it is called with (a tensor, a tuple of
  positional or a dict of keyword arguments), and a function from its output to a scalar.
  Forward, loss and backward are run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from tonnage.errors import InputError
from tonnage.pytorch.recorder import Recorder, record
from tonnage.pytorch.trace import Trace

TARGET = re.compile(r"(?P<path>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""How a person names a function of a file."""

_ACCEPTED = "path/to/file.py:function"


def dry_run_file(target: str, *, steps: int = 2) -> Trace:
    """Record a step of somebody's own code.

    Args:
        target: ``path/to/file.py:function``.
        steps: how often the step runs; the second finds optimizer states.

    Raises:
        InputError: there is no such file or function, or it returns something else.
        NotModelledError: the code asks a fake tensor for its values.
    """
    prepare = _load(target)
    with record() as recorder:
        step = _as_step(prepare(), recorder, target)
        for _ in range(steps):
            step()
        return recorder.trace()


def _load(target: str) -> Callable[[], Any]:
    match = TARGET.fullmatch(target)
    if match is None or not os.path.isfile(match["path"]):
        raise InputError(
            field="MODEL", value=target, problem="is no function of a file", accepted=_ACCEPTED
        )
    spec = importlib.util.spec_from_file_location("tonnage_dry_run_of", match["path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its neighbours can be imported, as when Python runs the file.
    sys.path.insert(0, os.path.dirname(os.path.abspath(match["path"])))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    function = getattr(module, match["function"], None)
    if not callable(function):
        raise InputError(
            field="MODEL",
            value=target,
            problem=f"has no function {match['function']}",
            accepted=_ACCEPTED,
        )
    return function  # type: ignore[no-any-return]


def _as_step(made: Any, recorder: Recorder, target: str) -> Callable[[], Any]:
    if callable(made):
        return made  # type: ignore[no-any-return]
    if isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], torch.nn.Module):
        model, batch, loss = made
        recorder.adopt_module(model)
        recorder.adopt(_tensors(batch), "input")
        return lambda: _forward_backward(recorder, model, batch, loss)
    raise InputError(
        field="MODEL",
        value=target,
        problem=f"returned {type(made).__name__}",
        accepted="a callable that runs one step, or (model, batch, loss)",
    )


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


def _tensors(batch: Any) -> list[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
