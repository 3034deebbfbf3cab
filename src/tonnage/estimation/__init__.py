"""Architecture + plan + cluster -> `Estimate`."""

from tonnage.estimation.answer import SCHEMA_VERSION, Estimate
from tonnage.estimation.estimate import Limits, estimate
from tonnage.estimation.explain import ROWS, Explanation, explain
from tonnage.estimation.timeline import RunTimeline, timeline

__all__ = [
    "ROWS",
    "SCHEMA_VERSION",
    "Estimate",
    "Explanation",
    "Limits",
    "RunTimeline",
    "estimate",
    "explain",
    "timeline",
]
