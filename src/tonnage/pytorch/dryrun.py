"""The dry run: the real PyTorch step of a plan on fake tensors, recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.arch import Architecture, read_config
from tonnage.cluster import Cluster
from tonnage.plan import Plan, Resolved, resolve
from tonnage.pytorch.build import build_model, build_optimizer
from tonnage.pytorch.recorder import record
from tonnage.pytorch.refuse import check_plan
from tonnage.pytorch.step import run_step
from tonnage.pytorch.trace import Trace

CPU_HABITS = (("layernorm_statistics", "input"), ("matmul_workspaces", "0"))
"""Habits of the CPU's kernels, where they are not made to do what CUDA's do."""


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A recorded step.

    Attributes:
        architecture: the model.
        resolved: the plan as it was run, its blanks filled.
        trace: what was recorded.
        assumptions: what the run stands for and what it leaves out.
    """

    architecture: Architecture
    resolved: Resolved
    trace: Trace
    assumptions: tuple[str, ...]


def dry_run(
    config: Mapping[str, object], plan: Plan, cluster: Cluster, *, name: str = "model"
) -> DryRun:
    """Run one step of one rank on fake tensors.

    Args:
        config: the keys of the model's config.json.
        plan: how it is trained, under the runtime ``transformers``.
        cluster: on what; it decides the data-parallel size and nothing else here.
        name: what people call the model.

    Raises:
        InputError: the plan is impossible.
        NotModelledError: it asks for something that a dry run cannot do.
    """
    architecture = read_config(config, name=name)
    # Overrides of a plan come last, and so win.
    habits = (*CPU_HABITS, *plan.habits)
    resolved = resolve(dataclasses.replace(plan, habits=habits), architecture, cluster)
    check_plan(resolved)
    setting = resolved.setting
    with record() as recorder:
        model = build_model(config, setting)
        recorder.adopt_module(model)
        run_step(recorder, model, build_optimizer(model, setting), setting)
        trace = recorder.trace()
    return DryRun(
        architecture=architecture,
        resolved=resolved,
        trace=trace,
        assumptions=(*_assumptions(resolved), *trace.notes),
    )


def _assumptions(resolved: Resolved) -> tuple[str, ...]:
    notes = ["one rank of transformers' own class; what a kernel allocates inside is not seen"]
    if resolved.plan.attention == "flash":
        notes.append(
            "attention saves what PyTorch's CUDA kernels save: flash attention (in fp32 too, as "
            "if it took that), or the memory-efficient kernel where values are not as wide as keys"
        )
    if resolved.setting.casts:
        notes.append("autocast by the CPU's list of operators, where fake tensors are")
    norms = {resolved.setting.architecture.final_norm}
    norms.update(layer.mixer_norm for layer in resolved.setting.architecture.layers)
    if any(norm is not None and norm.kind == "layernorm" for norm in norms):
        notes.append(
            "a LayerNorm keeps its statistics in its input's format, as the CPU's kernel does "
            "(habit layernorm_statistics); CUDA's keeps them in fp32"
        )
    if resolved.setting.replicas != 1:
        notes.append("gradients are not reduced: the buckets of data parallelism are left out")
    return tuple(notes)
