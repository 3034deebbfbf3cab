"""Habits of a software stack."""

from tonnage.runtime.profiles import RUNTIMES, runtime
from tonnage.runtime.runtime import (
    OFFLOADS,
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
    "OFFLOADS",
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
