"""What files say of a run of the Hugging Face Trainer, before a plan is made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Engine: TypeAlias = Literal["none", "fsdp1", "fsdp2", "deepspeed", "megatron"]
Mixed: TypeAlias = Literal["no", "bf16", "fp16", "fp8"]
Stored: TypeAlias = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is said of a run. None: nothing is said.

    Attributes:
        model: hub name or path of the model.
        engine: what shards: nothing (one process, or DDP over several), FSDP 1 or 2, DeepSpeed
            or Megatron-LM.
        processes: processes in all, one a device.
        machines: machines that they are spread over.
        mixed: accelerate's mixed precision.
        tf32: fp32 products on TF32 tensor cores.
        loaded: format that the weights are loaded in.
        upcast: weights that train are cast to fp32, whatever they are loaded in.
        optimizer: by the Trainer's name (``adamw_torch_fused``).
        recompute: activation checkpointing.
        reentrant: ``torch.utils.checkpoint`` with reentry.
        sync_each_batch: gradients are reduced after every micro-batch, not only the last.
        shard_in_node: sharded inside a machine and replicated beyond (``HYBRID_SHARD``).
        sequences: sequences that a sample becomes: 2 for a pair of answers.
        samples: samples in a micro-batch on one device.
        grad_acc: micro-batches in a step.
        batch: samples in a step over all devices.
        batch_at_least: samples in a step that accumulation is chosen for (ms-swift).
        seq: tokens in a sequence.
        steps: optimizer steps of the run.
        bucket_by_width: bytes of DeepSpeed's buckets over the square of the hidden size.
        plan: fields of a plan that nothing else decides on.
        habits: habits of the runtime that the files change.
    """

    model: str | None = None
    engine: Engine | None = None
    processes: int | None = None
    machines: int | None = None
    mixed: Mixed | None = None
    tf32: bool | None = None
    loaded: Stored | None = None
    upcast: bool | None = None
    optimizer: str | None = None
    recompute: bool | None = None
    reentrant: bool | None = None
    sync_each_batch: bool | None = None
    shard_in_node: bool | None = None
    sequences: int | None = None
    samples: int | None = None
    grad_acc: int | None = None
    batch: int | None = None
    batch_at_least: int | None = None
    seq: int | None = None
    steps: int | None = None
    bucket_by_width: int | None = None
    plan: Mapping[str, object] = field(default_factory=dict)
    habits: Mapping[str, str] = field(default_factory=dict)

    def filled(self, **changes: object) -> Run:
        """The run with what is None left alone, and the rest replaced."""
        given = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **given)  # type: ignore[arg-type]


_MAPPINGS = ("plan", "habits")


def overlay(first: Run, later: Run) -> tuple[Run, tuple[str, ...]]:
    """Two descriptions of one run: what the later says stands.

    Returns:
        The run, and where the two contradict each other, in sentences.
    """
    said: dict[str, object] = {}
    conflicts: list[str] = []
    for part in dataclasses.fields(Run):
        old, new = getattr(first, part.name), getattr(later, part.name)
        if part.name in _MAPPINGS:
            conflicts += _conflicts((key, old[key], new[key]) for key in new if key in old)
            said[part.name] = {**old, **new}
        else:
            if None not in (old, new):
                conflicts += _conflicts([(part.name, old, new)])
            said[part.name] = old if new is None else new
    return Run(**said), tuple(conflicts)  # type: ignore[arg-type]


def _conflicts(pairs: Iterable[tuple[str, object, object]]) -> list[str]:
    return [
        f"{name}: a later file says {new}, and an earlier one {old}: the later stands"
        for name, old, new in pairs
        if old != new
    ]
