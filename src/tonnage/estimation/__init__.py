"""Architecture + plan + cluster -> `Estimate`."""

from tonnage.estimation.answer import SCHEMA_VERSION, Estimate
from tonnage.estimation.estimate import estimate
from tonnage.estimation.explain import ROWS, Explanation, explain
from tonnage.estimation.limits import Failures, Limits

__all__ = [
    "ROWS",
    "SCHEMA_VERSION",
    "Estimate",
    "Explanation",
    "Failures",
    "Limits",
    "estimate",
    "explain",
]
