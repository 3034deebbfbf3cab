"""The dry run: the real PyTorch step of a plan on fake tensors, recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.arch import Architecture, read_config
from tonnage.cluster import Cluster
from tonnage.plan import Plan, Resolved, resolve
from tonnage.pytorch.build import ModelCode, build_model, build_optimizer, spread
from tonnage.pytorch.parallel import padded_weights
from tonnage.pytorch.recorder import record
from tonnage.pytorch.refuse import check_plan
from tonnage.pytorch.step import run_step
from tonnage.pytorch.trace import Trace
from tonnage.pytorch.world import fake_world

CPU_HABITS = (("layernorm_statistics", "input"), ("matmul_workspaces", "0"))
"""Habits of the CPU's kernels, where they are not made to do what CUDA's do."""

CODE_HABITS: dict[ModelCode, tuple[tuple[str, str], ...]] = {
    "reference": (),
    "transformers": (("shared_tensors", "true"), ("softmax", "fp32"), ("loss_frame", "true")),
}
"""Habits of the model's code, whatever stack it runs under."""


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A recorded step.

    Attributes:
        architecture: the model.
        code: whose class it is.
        resolved: the plan as it was run, its blanks filled.
        trace: what was recorded.
        assumptions: what the run stands for and what it leaves out.
    """

    architecture: Architecture
    code: ModelCode
    resolved: Resolved
    trace: Trace
    assumptions: tuple[str, ...]


def dry_run(
    config: Mapping[str, object],
    plan: Plan,
    cluster: Cluster,
    *,
    name: str = "model",
    code: ModelCode | None = None,
) -> DryRun:
    """Run one step of rank 0 on fake tensors, in a world of as many ranks as the plan has.

    Args:
        config: the keys of the model's config.json.
        plan: how it is trained, under a runtime of `tonnage.pytorch.refuse.RUNTIMES`.
        cluster: on what; it decides the data-parallel size and nothing else here.
        name: what people call the model.
        code: transformers' own class, or the reference transformer; None: the class under
            the runtime ``transformers``, else the reference.

    Raises:
        InputError: the plan is impossible, or this process is part of a world already.
        NotModelledError: it asks for something that a dry run cannot do.
    """
    architecture = read_config(config, name=name)
    code = code or ("transformers" if plan.runtime == "transformers" else "reference")
    notes = () if plan.loss or plan.runtime == "transformers" else (EAGER_LOSS,)
    # Overrides of a plan come last, and so win.
    habits = (*CPU_HABITS, *CODE_HABITS[code], *plan.habits)
    asked = dataclasses.replace(plan, habits=habits, loss=plan.loss or "eager")
    resolved = resolve(asked, architecture, cluster)
    check_plan(resolved, code)
    setting = resolved.setting
    with fake_world(setting) as world, record() as recorder:
        with recorder.paused():
            built = build_model(config, setting, code)
        model = spread(built, setting, code, world, recorder)
        with recorder.paused():
            padded = padded_weights(model)
        run_step(recorder, model, build_optimizer(model, setting), setting)
        trace = recorder.trace()
    return DryRun(
        architecture=architecture,
        code=code,
        resolved=resolved,
        trace=trace,
        assumptions=(*notes, *_padding(padded), *_assumptions(resolved, code), *trace.notes),
    )


def _padding(weights: int) -> tuple[str, ...]:
    if not weights:
        return ()
    return (
        f"{weights} weights have rows that the ranks do not divide: FSDP2 pads their shards, "
        "and the ledger does not",
    )


EAGER_LOSS = "loss eager: not given, what a dry run can run"


def _assumptions(resolved: Resolved, code: ModelCode) -> tuple[str, ...]:
    what = "transformers' own class" if code == "transformers" else "the reference transformer"
    notes = [f"rank 0 of {what}; what a kernel allocates inside is not seen"]
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
    alone = resolved.plan.runtime == "transformers" and resolved.setting.replicas != 1
    if alone:
        notes.append("gradients are not reduced: the buckets of data parallelism are left out")
    return tuple(notes)
