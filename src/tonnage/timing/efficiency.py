"""Shares of the published peaks that a training step is taken to reach.

Stated, and not fitted: a later release replaces them by functions of shape, device and
runtime held to measured steps. Each is an assumption of every estimate that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Shares of peak, each over 0 and at most 1.

    Attributes:
        compute: of dense FLOP/s, by matrix products and attention. Long runs at scale report
            0.4 to 0.8 of peak in their products; the low end where power is the limit.
        memory: of memory bandwidth, by elementwise operations and the optimizer.
        link: of a link's bandwidth in one direction, by collectives.
    """

    compute: float = 0.6
    memory: float = 0.8
    link: float = 0.7

    def __post_init__(self) -> None:
        """Check that each is a share."""
        for name in ("compute", "memory", "link"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0.0 < value <= 1.0):
                raise InputError(
                    field=f"efficiency.{name}",
                    value=value,
                    problem="is not a share of peak",
                    accepted="over 0, at most 1",
                )


STATED = Efficiency()
OPTIMISTIC = Efficiency(compute=0.8, memory=0.95, link=0.9)
PESSIMISTIC = Efficiency(compute=0.4, memory=0.6, link=0.5)
"""The ends of the range that an estimate gives beside its single figure."""

IDEAL = Efficiency(compute=1.0, memory=1.0, link=1.0)
"""Every resource at its published peak: with no communication or bubble, the lower bound."""
