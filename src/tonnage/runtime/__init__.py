"""Habits of a software stack."""

from tonnage.runtime.profiles import RUNTIMES, runtime
from tonnage.runtime.runtime import (
    Axis,
    CpComm,
    LossRule,
    Offload,
    Runtime,
    ShardingRule,
    SplitRule,
    habit_names,
    with_habits,
)

__all__ = [
    "RUNTIMES",
    "Axis",
    "CpComm",
    "LossRule",
    "Offload",
    "Runtime",
    "ShardingRule",
    "SplitRule",
    "habit_names",
    "runtime",
    "with_habits",
]
