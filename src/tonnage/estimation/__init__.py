"""Architecture + plan + cluster -> `Estimate`."""

from tonnage.estimation.answer import SCHEMA_VERSION, Estimate
from tonnage.estimation.estimate import Limits, estimate
from tonnage.estimation.explain import ROWS, Explanation, explain

__all__ = [
    "ROWS",
    "SCHEMA_VERSION",
    "Estimate",
    "Explanation",
    "Limits",
    "estimate",
    "explain",
]
