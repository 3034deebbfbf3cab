"""Numbers that code reads out of tensors which have none.

A fake tensor has a shape and no values. Two readings have an answer that any run would
bear: an optimizer asks its step counter (any step but the zeroth), and a logger asks for
a loss. Others would decide what the code does next, and are refused.
"""

from __future__ import annotations

from typing import Any

import torch

from tonnage.errors import NotModelledError
from tonnage.pytorch.trace import Phase


def stand_in(func: Any, args: Any, phase: Phase, notes: dict[str, None]) -> float | None:
    """The number that stands for a tensor's value; None: the operator asks for none.

    Raises:
        NotModelledError: the value would decide what the code does.
    """
    if func is not torch.ops.aten._local_scalar_dense.default:
        return None
    if phase == "step":
        return 1.0
    if not args[0].is_floating_point():
        raise NotModelledError(
            field="dry run",
            value=f"a value of a tensor of {str(args[0].dtype).removeprefix('torch.')}",
            problem="is asked for, and fake tensors have none",
            accepted="code whose shapes and branches do not depend on values",
            hint="take the branch, or the sizes, from the configuration",
        )
    notes["a floating-point number read from a tensor is taken as 0"] = None
    return 0.0
