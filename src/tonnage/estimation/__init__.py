"""Architecture + plan + cluster -> `Estimate`."""

from tonnage.estimation.answer import SCHEMA_VERSION, Estimate
from tonnage.estimation.estimate import Limits, estimate

__all__ = ["SCHEMA_VERSION", "Estimate", "Limits", "estimate"]
