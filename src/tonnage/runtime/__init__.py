"""Habits of a software stack."""

from tonnage.runtime.profiles import RUNTIMES, runtime
from tonnage.runtime.runtime import (
    Axis,
    LossRule,
    Runtime,
    ShardingRule,
    SplitRule,
    habit_names,
    with_habits,
)

__all__ = [
    "RUNTIMES",
    "Axis",
    "LossRule",
    "Runtime",
    "ShardingRule",
    "SplitRule",
    "habit_names",
    "runtime",
    "with_habits",
]
