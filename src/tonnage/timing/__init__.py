"""Seconds: kernels, collectives, pipelines and the step."""

from tonnage.timing.efficiency import STATED, Efficiency
from tonnage.timing.step import PARTS, StepTime, step_time

__all__ = ["PARTS", "STATED", "Efficiency", "StepTime", "step_time"]
