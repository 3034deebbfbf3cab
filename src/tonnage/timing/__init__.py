"""Seconds: kernels, collectives, pipelines and the step."""

from tonnage.timing.efficiency import STATED, Efficiency, sustained_flops
from tonnage.timing.spread import half_width
from tonnage.timing.step import PARTS, StepTime, step_time

__all__ = [
    "PARTS",
    "STATED",
    "Efficiency",
    "StepTime",
    "half_width",
    "step_time",
    "sustained_flops",
]
