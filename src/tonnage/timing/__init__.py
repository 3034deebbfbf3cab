"""Seconds: kernels, collectives, pipelines and the step."""

from tonnage.timing.efficiency import IDEAL, OPTIMISTIC, PESSIMISTIC, STATED, Efficiency
from tonnage.timing.step import PARTS, StepTime, step_time

__all__ = [
    "IDEAL",
    "OPTIMISTIC",
    "PARTS",
    "PESSIMISTIC",
    "STATED",
    "Efficiency",
    "StepTime",
    "step_time",
]
