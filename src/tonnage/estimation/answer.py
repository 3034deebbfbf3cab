"""The shape of an answer: plain numbers in SI bytes and seconds, as JSON prints them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tonnage.plan import Plan

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """The model: its name and its parameters, total and active."""

    name: str
    family: str
    parameters: int
    active_parameters: int


@dataclass(frozen=True, kw_only=True)
class ClusterPart:
    """Where it runs."""

    device: str
    gpus: int
    nodes: int
    gpus_per_node: int


@dataclass(frozen=True, kw_only=True)
class PeakBytes:
    """The three counters, never mixed up: tensors, the allocator, the device."""

    allocated: int
    reserved: int
    device: int


@dataclass(frozen=True, kw_only=True)
class StagePart:
    """Memory of one pipeline stage on one rank, in bytes.

    Attributes:
        stage: position in the pipeline.
        first_rank: its lowest global rank.
        layers: decoder layers it holds.
        peak_instant: when its peak is.
        peak_bytes: its peak by counter.
        categories: tensors alive at the peak; they sum to ``allocated``.
        instants: allocated bytes at each instant that could be the peak.
        unsure: features known in bounds only, each with the bytes that the figure may be too
            high and too low by.
    """

    stage: int
    first_rank: int
    layers: int
    peak_instant: str
    peak_bytes: PeakBytes
    categories: dict[str, int]
    instants: dict[str, int]
    unsure: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def slack_bytes(self) -> tuple[int, int]:
        """What all of them together may move the figure by, down and up."""
        return sum(low for low, _ in self.unsure.values()), sum(
            high for _, high in self.unsure.values()
        )


@dataclass(frozen=True, kw_only=True)
class MemoryPart:
    """Memory of the worst rank, in bytes, and of every stage.

    Attributes:
        worst_rank: the lowest global rank of the stage with the highest peak.
        worst_stage: that stage.
        peak_instant: when its peak is.
        peak_bytes: its peak by counter.
        capacity_bytes: what the device lets a process use, less limit and margin.
        headroom_bytes: capacity less the device peak; negative where it does not fit.
        categories: tensors alive at the peak; they sum to ``peak_bytes.allocated``.
        outside_bytes: what lies outside the allocator.
        outside: the same by part.
        range_bytes: lower and upper end of the device peak.
        stages: every pipeline stage.
    """

    worst_rank: int
    worst_stage: int
    peak_instant: str
    peak_bytes: PeakBytes
    capacity_bytes: int
    headroom_bytes: int
    categories: dict[str, int]
    outside_bytes: int
    outside: dict[str, int]
    range_bytes: tuple[int, int]
    stages: tuple[StagePart, ...]


@dataclass(frozen=True, kw_only=True)
class FlopsPart:
    """FLOPs, forward and backward, counting the whole square of attention or its lower half.

    Attributes:
        per_token: model FLOPs of one token, whole square.
        model_per_step: model FLOPs of a step, whole square.
        hardware_per_step: with what activation recomputation repeats.
        per_token_causal: as above with causal attention counted as half.
        model_per_step_causal: likewise.
        hardware_per_step_causal: likewise.
    """

    per_token: float
    model_per_step: float
    hardware_per_step: float
    per_token_causal: float
    model_per_step_causal: float
    hardware_per_step_causal: float


@dataclass(frozen=True, kw_only=True)
class LargestPart:
    """The largest part of a step: its name, its seconds, and its share of the step."""

    part: str
    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True)
class StepPart:
    """Time of a step, in seconds, and what follows from it.

    Attributes:
        seconds: the best single figure.
        lower_bound_seconds: every FLOP at the published peak, nothing else.
        range_seconds: what should hold nine of ten runs: from the spread of the constants.
        tokens_per_step: tokens of a step over all ranks.
        tokens_per_second: over all ranks.
        tokens_per_second_per_gpu: of one.
        mfu: model FLOPs over peak, the whole square of attention counted.
        hfu: the same with recomputation.
        mfu_causal: causal attention counted as half.
        hfu_causal: likewise.
        breakdown: seconds by part; they sum to ``seconds``.
        largest: the largest part.
    """

    seconds: float
    lower_bound_seconds: float
    range_seconds: tuple[float, float]
    tokens_per_step: int
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float
    hfu: float
    mfu_causal: float
    hfu_causal: float
    breakdown: dict[str, float]
    largest: LargestPart


@dataclass(frozen=True, kw_only=True)
class CommunicationPart:
    """What one rank of the busiest stage sends in a step.

    Attributes:
        kind: the collective.
        axis: the mesh axis of its group.
        group_size: ranks in the group.
        bytes_per_rank: bytes that a rank sends.
        count: collectives of that kind.
    """

    kind: str
    axis: str
    group_size: int
    bytes_per_rank: int
    count: int


@dataclass(frozen=True, kw_only=True)
class FailuresPart:
    """What failures make of a run (Daly 2006).

    Attributes:
        gpu_mtbf_seconds: mean time between failures of one device.
        job_mtbf_seconds: the same of all of them together.
        checkpoint_bytes: weights that train, master copies and optimizer states.
        checkpoint_seconds: to write them.
        interval_seconds: of work between checkpoints: Daly's, in whole steps.
        interval_steps: the same in steps.
        restart_seconds: from a failure until work goes on.
        expected: failures of the whole run.
        seconds: of the run with checkpoints, lost work and restarts.
        days: the same in days.
        gpu_hours: of all devices.
        goodput: share of those seconds that goes into steps that count.
    """

    gpu_mtbf_seconds: float
    job_mtbf_seconds: float
    checkpoint_bytes: int
    checkpoint_seconds: float
    interval_seconds: float
    interval_steps: int
    restart_seconds: float
    expected: float
    seconds: float
    days: float
    gpu_hours: float
    goodput: float


@dataclass(frozen=True, kw_only=True)
class RunPart:
    """A whole run of many steps.

    Attributes:
        tokens: of the run.
        steps: of the run.
        seconds: of all steps, without failures.
        days: the same in days.
        gpu_hours: of all devices, without failures.
        failures: with failures, where they were asked for.
        price: of a GPU-hour, where it was given.
        cost: of all GPU-hours, with failures where they were asked for.
    """

    tokens: int
    steps: int
    seconds: float
    days: float
    gpu_hours: float
    failures: FailuresPart | None = None
    price: float | None = None
    cost: float | None = None


FitsBy: TypeAlias = Literal["replay", "closed form"]
"""How reserved memory was found: by replay of the allocations, or by a closed form."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The answer. Plain numbers: SI bytes and seconds. See each part for its fields."""

    model: ModelPart
    cluster: ClusterPart
    plan: Plan
    fits: bool
    fits_by: FitsBy
    memory: MemoryPart
    flops: FlopsPart
    step: StepPart
    communication: tuple[CommunicationPart, ...]
    assumptions: tuple[str, ...]
    not_modelled: tuple[str, ...]
    run: RunPart | None = None
    schema_version: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON takes it."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """The verdict in one line."""
        verdict = "fits" if self.fits else "does not fit"
        peak, room = self.memory.peak_bytes.device / 2**30, self.memory.capacity_bytes / 2**30
        return (
            f"{self.model.name} {verdict} on {self.cluster.gpus}x{self.cluster.device}: "
            f"{peak:.2f} of {room:.2f} GiB, {self.step.seconds:.3g} s a step"
        )
