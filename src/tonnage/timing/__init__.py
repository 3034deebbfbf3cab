"""Seconds: kernels, collectives, pipelines and the step."""

from tonnage.timing.efficiency import STATED, Efficiency, sustained_flops
from tonnage.timing.spread import interval
from tonnage.timing.step import PARTS, StepTime, step_time

__all__ = [
    "PARTS",
    "STATED",
    "Efficiency",
    "StepTime",
    "interval",
    "step_time",
    "sustained_flops",
]
