"""How far a measured step may lie from its estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.algebra import Number, total

SPREAD: Final[dict[str, float]] = {
    "compute": 0.06,
    "recompute": 0.06,
    "tensor_parallel": 0.15,
    "context_parallel": 0.30,
    "expert_parallel": 0.40,
    "pipeline_sends": 0.30,
    "pipeline_bubble": 0.10,
    "data_parallel": 0.30,
    "optimizer": 0.20,
    "host": 0.30,
}
"""Relative error of each part of a step, one standard deviation, from what measured steps of
dense models leave unexplained (docs/scoreboard.md)."""

EXPERT_COMPUTE: Final = 0.15
"""The same of compute in a model with experts, whose kernels differ from one release of a
library to the next by as much: one recipe went from 8.6 to 5.8 s between two containers."""

NINE_OF_TEN: Final = 1.645
"""Standard deviations on either side that hold nine of ten normal values."""


def half_width(parts: Mapping[str, Number], *, experts: bool) -> Number:
    """Half the width of the interval that should hold nine of ten steps, over the step's time.

    The parts' errors are taken to be independent of each other.

    Args:
        parts: seconds by part, as `tonnage.timing.step.PARTS` names them.
        experts: whether the model has experts.
    """
    seconds = total(parts.values())
    squares: Number = 0.0
    for name, part in parts.items():
        spread = SPREAD[name]
        if experts and name in ("compute", "recompute"):
            spread = EXPERT_COMPUTE
        squares = squares + (spread * part / seconds) ** 2
    return NINE_OF_TEN * squares**0.5
