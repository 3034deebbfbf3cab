"""The dry run: the real PyTorch step of a plan on fake tensors, recorded."""

from __future__ import annotations

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
    resolved = resolve(plan, architecture, cluster)
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
            "attention saves what PyTorch's CUDA kernels save: flash attention, or the "
            "memory-efficient kernel in fp32 and where keys and values differ in width"
        )
    if resolved.setting.casts:
        notes.append("autocast by the CPU's list of operators, where tensors are fake")
    if resolved.setting.replicas != 1:
        notes.append("gradients are not reduced: the buckets of data parallelism are left out")
    return tuple(notes)
