"""What a process holds on the device outside PyTorch's tensors, and what the allocator keeps."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, where
from tonnage.cluster import Device
from tonnage.plan import Setting

MIB = 2**20

LIBRARY_BYTES = 200 * MIB
"""Handles and kernels of cuBLAS, cuDNN and the like, loaded at first use.

Seen as the difference between the context and a process after one training step; it
differs by library version.
"""

COMMUNICATOR_BYTES = 2 * 16 * 4 * MIB
"""One NCCL communicator: send and receive sides of 16 channels with NCCL_BUFFSIZE of 4 MiB.

The channel count is NCCL's choice by topology (2 to 32).
"""

RESERVED_SHARE = 0.05
"""What the caching allocator holds beyond the tensors, over the tensors: rounding and
segments that cannot be reused. Megatron runs that give both counters (SimuMax 1.2 on B200,
ten plans) lie between 2.8 % and 7.9 %; a replay of the allocations will replace it."""

RESERVED_SHARE_WORST = 0.12
"""The same where fragmentation is bad, for the upper end of the range."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Bytes outside the tensors on one rank."""

    context: int
    libraries: int
    communicators: Number

    @property
    def bytes(self) -> Number:
        """All of them."""
        return self.context + self.libraries + self.communicators


def outside(setting: Setting, device: Device) -> Outside:
    """Context, libraries and one communicator an axis that has more than one rank."""
    plan = setting.plan
    degrees = (setting.tp, setting.replicas, setting.cp, setting.ep, setting.etp, plan.pp)
    count: Number = 0
    for degree in degrees:
        count = count + where(degree > 1, 1, 0)
    return Outside(
        context=device.context_bytes,
        libraries=LIBRARY_BYTES,
        communicators=count * COMMUNICATOR_BYTES,
    )


def reserved_bytes(allocated: Number) -> Number:
    """What the caching allocator holds from the driver, as a best single figure."""
    return allocated + allocated * round(RESERVED_SHARE * 100) // 100
