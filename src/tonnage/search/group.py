"""Plans that share every categorical choice, as columns of their numbers; and what they weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.plan import Plan
from tonnage.timing.step import PARTS

NUMERIC: Final = ("tp", "cp", "ep", "etp", "dp", "shard", "mbs", "grad_acc", "seq")
"""The columns of a group: the numeric fields of `tonnage.plan.setting.Setting`."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Plans that differ in numbers only.

    Attributes:
        plan: what they share, every choice made (runtime, pp, vpp, schedule, layout,
            recomputation, ZeRO stage, formats, loss, sp, offload). Its numeric fields are
            those of any legal plan, not necessarily one of the group. ``hsdp_shard`` says
            only whether parameters are sharded over a part of the replicas.
        columns: one array for each of `NUMERIC`, of equal length, one entry a plan. The plans
            are taken to be legal: nothing is checked.
    """

    plan: Plan
    columns: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        """How many plans."""
        return len(self.columns["tp"])


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """What the plans of a group need, one entry a plan.

    The memory is that of the worst stage, the one with the largest ``device``.

    Attributes:
        allocated: bytes of tensors at the peak.
        reserved: a closed bound of what the allocator holds then, in bytes: never below the
            single figure of `tonnage.estimation.estimate`.
        device: the same with what lies outside the allocator.
        worst_stage: which stage.
        seconds: of a step.
        parts: seconds by part, as `tonnage.timing.step.PARTS` names them.
    """

    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]
    device: NDArray[np.int64]
    worst_stage: NDArray[np.int64]
    seconds: NDArray[np.float64]
    parts: Mapping[str, NDArray[np.float64]]

    @classmethod
    def empty(cls, count: int) -> Weighed:
        """Places for the figures of so many plans, still to be filled."""
        sizes = ("allocated", "reserved", "device", "worst_stage")
        return cls(
            **{name: np.empty(count, np.int64) for name in sizes},
            seconds=np.empty(count),
            parts={name: np.empty(count) for name in PARTS},
        )
