"""How far a measured step may lie from its estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.algebra import Number, total

SPREAD: Final[dict[str, float]] = {
    "compute": 0.08,
    "recompute": 0.08,
    "tensor_parallel": 0.20,
    "context_parallel": 0.30,
    "expert_parallel": 0.35,
    "pipeline_sends": 0.30,
    "pipeline_bubble": 0.10,
    "data_parallel": 0.40,
    "optimizer": 0.20,
    "host": 0.40,
    "offload": 0.40,
}
"""Relative error of each part of a step, one standard deviation, from what measured steps
leave unexplained (docs/scoreboard.md); of what lies on the host that is assumed."""

EXPERT_COMPUTE: Final = 0.11
"""The same of compute in a model with experts, whose kernels differ from one release of a
library to the next: one recipe went from 8.6 to 5.8 s between two containers."""

EXPERT_SKEW: Final = (0.70, 2.25)
"""With experts, how much of the spread lies below and above: what is not modelled (host
synchronisation, imbalance, older kernels) only ever costs time."""

NINE_OF_TEN: Final = 1.645
"""Standard deviations on either side that hold nine of ten normal values."""


def interval(
    seconds: Number, parts: Mapping[str, Number], *, experts: bool
) -> tuple[Number, Number]:
    """The interval that should hold nine of ten steps.

    The parts' errors are taken to be independent of each other.

    Args:
        seconds: the estimate.
        parts: seconds by part, as `tonnage.timing.step.PARTS` names them.
        experts: whether the model has experts.
    """
    spreads = dict(SPREAD)
    below, above = (1.0, 1.0)
    if experts:
        spreads["compute"] = spreads["recompute"] = EXPERT_COMPUTE
        below, above = EXPERT_SKEW
    squares = total((spreads[name] * part / seconds) ** 2 for name, part in parts.items())
    width = NINE_OF_TEN * squares**0.5
    return seconds / (1 + below * width), seconds * (1 + above * width)
