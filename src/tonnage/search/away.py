"""What a search can leave in host memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Away:
    """Which states lie in host memory.

    Attributes:
        parameters: all of them, as `tonnage.plan.Plan.offload_parameters`.
        optimizer: the share of the optimizer's.
    """

    parameters: bool
    optimizer: float

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a plan that it decides."""
        return {"offload_parameters": self.parameters, "offload_optimizer": self.optimizer}


def ways(parameters: Iterable[bool], optimizer: Iterable[float]) -> tuple[Away, ...]:
    """Every way to hold states, the one that leaves least on the device first.

    Where parameters lie on the host so do all states, and the share of the optimizer's says
    nothing.
    """
    shares = sorted(set(optimizer), reverse=True)
    found = []
    for whole in sorted(set(parameters), reverse=True):
        found += [Away(parameters=whole, optimizer=s) for s in (shares[-1:] if whole else shares)]
    return tuple(found)
