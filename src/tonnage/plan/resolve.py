"""Fill the blanks of a plan, and say what was filled in."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.errors import InputError
from tonnage.plan.check import check_degrees, check_setting
from tonnage.plan.idle import check_idle
from tonnage.plan.layout import Stage, stages
from tonnage.plan.nouns import check_nouns
from tonnage.plan.optimizer import optimizer
from tonnage.plan.plan import Plan
from tonnage.plan.precision import Precision, precision
from tonnage.plan.setting import Setting
from tonnage.plan.values import check_values, positive
from tonnage.runtime import Runtime, runtime, with_habits

DEFAULT_SEQ = 4096
"""Tokens in a sequence where none is given and the model's context is not shorter."""

DEFAULT_MICROBATCHES_PER_STAGE = 4
"""Micro-batches per pipeline stage where no batch is given: a bubble of at most a fifth."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A checked plan: no field of it that a number can stand in is None.

    Attributes:
        plan: the plan with every blank filled.
        setting: the same as the ledger reads it.
        stages: the layers of each pipeline stage.
        assumptions: what was filled in, in sentences.
    """

    plan: Plan
    setting: Setting
    stages: tuple[Stage, ...]
    assumptions: tuple[str, ...]


def resolve(plan: Plan, architecture: Architecture, cluster: Cluster) -> Resolved:
    """Check a plan against what it runs and where, and fill in what it leaves open.

    Raises:
        InputError: the plan is impossible; the error names the field, both numbers and
            the nearest legal values.
        NotModelledError: the plan asks for something that is not accounted for.
    """
    check_nouns(architecture=architecture, plan=plan, cluster=cluster)
    check_values(plan)
    check_idle(plan, architecture)
    notes: list[str] = []
    profile = _runtime(plan, notes)
    filled = _fill_choices(plan, profile, architecture, cluster, notes)
    check_degrees(filled, architecture, cluster, profile)
    filled = _fill_batch(filled, cluster, notes)
    setting = _setting(filled, architecture, profile, cluster.device.architecture)
    layout = stages(architecture, filled, profile.pipeline_split)
    check_setting(setting, filled)
    return Resolved(plan=filled, setting=setting, stages=layout, assumptions=tuple(notes))


def _runtime(plan: Plan, notes: list[str]) -> Runtime:
    """The profile with the plan's overrides, whether by field or by ``--habit``."""
    profile = runtime(plan.runtime)
    if plan.runtime == Plan.runtime:
        notes.append(f"runtime {profile.name}: {profile.summary}")
    fields = {
        "loss": plan.loss,
        "cp_comm": plan.cp_comm,
        "optimizer_step": plan.optimizer_step,
        "overlap_grad_reduce": plan.overlap_grad_reduce,
        "overlap_param_gather": plan.overlap_param_gather,
    }
    given = tuple((name, str(value)) for name, value in fields.items() if value is not None)
    return with_habits(profile, plan.habits + given)


def usual_flash_attention(device: str) -> int:
    """The generation of flash attention that stacks pick on a device where none is named.

    The third (or cuDNN's, which keeps the same tensors) from Hopper on; the second before.
    """
    return 3 if device.startswith("sm") and int(device[2:].rstrip("af")) >= 90 else 2


def _fill_choices(
    plan: Plan, profile: Runtime, architecture: Architecture, cluster: Cluster, notes: list[str]
) -> Plan:
    """Everything that does not depend on the number of ranks."""
    zero = profile.zero if plan.zero is None else plan.zero
    blanks: dict[str, object] = {
        "sp": plan.tp > 1 and "sp" in profile.axes,
        "etp": plan.tp if architecture.is_moe and "etp" in profile.axes else 1,
        "schedule": "interleaved" if plan.vpp > 1 else "1f1b",
        "zero": profile.zero,
        "precision": profile.precision,
        "seq": default_seq(architecture),
        "loss": profile.loss,
        "cp_comm": profile.cp_comm,
        "optimizer_step": profile.optimizer_step,
        "overlap_grad_reduce": profile.overlap_grad_reduce,
        # Without ZeRO there is nothing to gather.
        "overlap_param_gather": profile.overlap_param_gather and zero > 0,
        "attention_version": profile.flash_attention
        or usual_flash_attention(cluster.device.architecture),
    }
    filled = {name: value for name, value in blanks.items() if getattr(plan, name) is None}
    for name in ("seq", "precision", "zero"):
        if name in filled:
            notes.append(f"{name} {filled[name]}: not given, {_why(name, profile)}")
    schedule = str(filled.get("schedule", plan.schedule))
    if plan.pp > 1 and schedule not in profile.schedules:
        notes.append(
            f"schedule {schedule}: {profile.name} has none of its own, and is weighed as if it had"
        )
    if filled.get("sp"):
        notes.append("sequence parallelism on: not given, the usual choice with tp > 1")
    return dataclasses.replace(plan, **filled)  # type: ignore[arg-type]


def default_seq(architecture: Architecture) -> int:
    """Tokens in a sequence where none is given."""
    return min(DEFAULT_SEQ, architecture.max_positions or DEFAULT_SEQ)


def _why(name: str, profile: Runtime) -> str:
    if name == "seq":
        return f"{DEFAULT_SEQ} or the model's context where that is shorter"
    return f"the default of {profile.name}"


def _fill_batch(plan: Plan, cluster: Cluster, notes: list[str]) -> Plan:
    """Take dp from the ranks that are left, and gbs and grad_acc from each other."""
    dp = cluster.gpus // (plan.tp * plan.pp * plan.cp)
    share = plan.mbs * dp
    if plan.gbs is None and plan.grad_acc is None:
        grad_acc = DEFAULT_MICROBATCHES_PER_STAGE * plan.pp if plan.pp > 1 else 1
        notes.append(
            f"global batch {share * grad_acc}: not given, "
            f"mbs {plan.mbs} × grad_acc {grad_acc} × dp {dp}"
        )
    elif plan.gbs is None:
        assert plan.grad_acc is not None
        grad_acc = positive("grad_acc", plan.grad_acc)
    else:
        grad_acc = _accumulation(plan, plan.gbs, dp)
    return dataclasses.replace(plan, dp=dp, gbs=share * grad_acc, grad_acc=grad_acc)


def _accumulation(plan: Plan, gbs: int, dp: int) -> int:
    share = plan.mbs * dp
    grad_acc, remainder = divmod(gbs, share)
    if remainder or grad_acc == 0:
        nearest = [count for count in (grad_acc * share, (grad_acc + 1) * share) if count]
        raise InputError(
            field="gbs",
            value=gbs,
            problem=f"is not a multiple of mbs {plan.mbs} × dp {dp} = {share}",
            accepted=" or ".join(map(str, nearest)) + " (the nearest)",
        )
    if plan.grad_acc is not None and plan.grad_acc != grad_acc:
        raise InputError(
            field="grad_acc",
            value=plan.grad_acc,
            problem=f"contradicts gbs {gbs} = mbs {plan.mbs} × grad_acc × dp {dp}",
            accepted=str(grad_acc),
        )
    return grad_acc


def _precision(plan: Plan, name: str) -> Precision:
    """The recipe with the roles that the plan overrides."""
    recipe = precision(name)
    changes: dict[str, str | None] = {}
    for role in ("weights", "gradients", "reduction", "master", "moments"):
        given = getattr(plan, f"{role}_dtype")
        if given is None:
            continue
        none = role == "master" and given.lower() == "none"
        changes[role] = None if none else _stored(given, field=f"{role}_dtype")
    return dataclasses.replace(recipe, **changes)  # type: ignore[arg-type]


STORED = ("fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2")
"""Formats that a role of a recipe can be stored in without block scales."""


def _stored(given: str, field: str) -> str:
    name = dtype(given, field=field).name
    if name not in STORED:
        raise InputError(
            field=field,
            value=given,
            problem="is not a format that this role is stored in",
            accepted=", ".join(STORED),
        )
    return name


def _setting(plan: Plan, architecture: Architecture, profile: Runtime, device: str) -> Setting:
    filled = (plan.precision, plan.zero, plan.etp, plan.dp, plan.grad_acc, plan.seq)
    assert all(value is not None for value in filled)
    replicas = (plan.dp or 1) * plan.cp
    return Setting(
        architecture=architecture,
        plan=plan,
        runtime=profile,
        precision=_precision(plan, plan.precision or ""),
        optimizer=optimizer(plan.optimizer),
        sp=bool(plan.sp),
        zero=plan.zero or 0,
        tp=plan.tp,
        cp=plan.cp,
        ep=plan.ep,
        etp=plan.etp,
        dp=plan.dp,
        shard=plan.hsdp_shard or replicas,
        mbs=plan.mbs,
        grad_acc=plan.grad_acc,
        seq=plan.seq,
        device=device,
        causal=plan.attention == "flash",
    )
