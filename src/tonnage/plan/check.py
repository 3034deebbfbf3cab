"""What makes a plan impossible, each as one error that names the nearest legal values."""

from __future__ import annotations

import math

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError, NotModelledError
from tonnage.plan.check_layer import check_activation, check_layer, check_predictors
from tonnage.plan.check_schedule import check_microbatches, check_schedule, nearest_multiples
from tonnage.plan.layout import divisors_text
from tonnage.plan.plan import LoraTarget, Plan
from tonnage.plan.setting import Setting
from tonnage.plan.values import choices
from tonnage.runtime import Runtime


def check_degrees(
    plan: Plan, architecture: Architecture, cluster: Cluster, runtime: Runtime
) -> None:
    """Check the degrees against the runtime, the ranks and the architecture."""
    _check_stack(plan, architecture, runtime)
    _check_world(plan, cluster)
    _check_shape(plan, architecture)


def check_model(plan: Plan, architecture: Architecture, runtime: Runtime) -> None:
    """Check all that does not depend on the number of ranks.

    Raises:
        InputError: the runtime or the architecture makes a degree impossible.
        NotModelledError: the combination makes sense and is not accounted for.
    """
    _check_stack(plan, architecture, runtime)
    _check_shape(plan, architecture)


def _check_stack(plan: Plan, architecture: Architecture, runtime: Runtime) -> None:
    if architecture.only_counted:
        raise NotModelledError(
            field="MODEL",
            value=architecture.name,
            problem=f"is {architecture.only_counted}: its parameters are counted, "
            "and a run of it is not modelled",
            accepted="a model of one sequence of tokens",
        )
    _check_runtime(plan, runtime)
    check_predictors(plan, architecture, runtime)
    _check_offload(plan, runtime)
    check_activation(plan, runtime)


def _check_shape(plan: Plan, architecture: Architecture) -> None:
    for layer in architecture.kinds():
        check_layer(plan, layer)
    expert_axes = {"ep": plan.ep, "etp": plan.etp or 1}
    for field, degree in expert_axes.items() if not architecture.is_moe else ():
        if degree == 1:
            continue
        raise InputError(
            field=field,
            value=degree,
            problem=f"needs experts, and {architecture.name} has none",
            accepted="1",
        )
    check_schedule(plan)
    limit = architecture.max_positions if architecture.learned_positions else None
    if limit is not None and (plan.seq or 1) > limit:
        raise InputError(
            field="seq",
            value=plan.seq,
            problem=f"is more than the {limit} learnt positions",
            accepted=f"1 to {limit}",
        )


def _check_runtime(plan: Plan, runtime: Runtime) -> None:
    if plan.lora_base is not None and not runtime.quantized_bases:
        raise InputError(
            field="lora_base",
            value=plan.lora_base,
            problem=f"is not a base that {runtime.name} can put adapters on",
            accepted="the recipe's own weights",
            hint="--runtime transformers, accelerate, torchtune or litgpt",
        )
    for axis in ("tp", "pp", "vpp", "cp", "ep", "etp"):
        if (getattr(plan, axis) or 1) > 1 and axis not in runtime.axes:
            raise InputError(
                field=axis,
                value=getattr(plan, axis),
                problem=f"is an axis that {runtime.name} does not have",
                accepted="1",
                hint="another --runtime",
            )
    if plan.zero not in runtime.zero_stages:
        raise InputError(
            field="zero",
            value=plan.zero,
            problem=f"is a stage that {runtime.name} does not have",
            accepted=" or ".join(map(str, runtime.zero_stages)),
            hint="another --runtime",
        )
    if plan.sp and plan.tp > 1 and "sp" not in runtime.axes:
        raise InputError(
            field="sp",
            value=True,
            problem=f"is not something that {runtime.name} has",
            accepted="false",
        )


def _check_offload(plan: Plan, runtime: Runtime) -> None:
    """Only engines that gather parameters unit by unit are modelled with the rest on the host."""
    units = runtime.sharding in ("fully-sharded", "flat-units") and plan.zero == 3
    if plan.offload_parameters and not units:
        raise NotModelledError(
            field="offload_parameters",
            value=True,
            problem=f"is not modelled yet under {runtime.name} at ZeRO stage {plan.zero}",
            accepted="a runtime over fully_shard or FSDP1, at stage 3",
        )


def _check_world(plan: Plan, cluster: Cluster) -> None:
    model_ranks = plan.tp * plan.pp * plan.cp
    if cluster.gpus % model_ranks:
        raise InputError(
            field="tp × pp × cp",
            value=f"{plan.tp} × {plan.pp} × {plan.cp} = {model_ranks}",
            problem=f"does not divide the {cluster.gpus} GPUs",
            accepted=divisors_text(cluster.gpus),
        )
    dp = cluster.gpus // model_ranks
    if plan.dp is not None and plan.dp != dp:
        raise InputError(
            field="dp",
            value=plan.dp,
            problem=f"× tp {plan.tp} × pp {plan.pp} × cp {plan.cp} is not {cluster.gpus} GPUs",
            accepted=str(dp),
            hint=f"--dp {dp}, or leave it out" if dp else "",
        )
    expert_ranks = plan.ep * (plan.etp or 1)
    if (dp * plan.cp * plan.tp) % expert_ranks:
        raise InputError(
            field="ep × etp",
            value=f"{plan.ep} × {plan.etp} = {expert_ranks}",
            problem=f"does not divide tp {plan.tp} × cp {plan.cp} × dp {dp}",
            accepted=divisors_text(dp * plan.cp * plan.tp),
        )
    if plan.hsdp_shard is not None and (plan.zero == 0 or (dp * plan.cp) % plan.hsdp_shard):
        raise InputError(
            field="hsdp_shard",
            value=plan.hsdp_shard,
            problem="needs ZeRO" if plan.zero == 0 else f"does not divide dp × cp = {dp * plan.cp}",
            accepted="zero 1 to 3" if plan.zero == 0 else divisors_text(dp * plan.cp),
        )


def check_setting(setting: Setting, plan: Plan) -> None:
    """Check lengths, batch and adapters, once every blank is filled."""
    seq = int(setting.seq)
    # Causal attention is balanced over cp ranks by giving each an early and a late piece.
    pieces = 2 * plan.cp if plan.cp > 1 else 1
    split = math.lcm(pieces, plan.cp * (plan.tp if setting.sp else 1))
    if seq % split:
        raise InputError(
            field="seq",
            value=seq,
            problem=f"cannot be split over cp {plan.cp} and tp {plan.tp}: no multiple of {split}",
            accepted=nearest_multiples(seq, split),
        )
    check_microbatches(plan, setting.grad_acc)
    if plan.optimizer_in_backward and setting.grad_acc > 1:
        raise InputError(
            field="optimizer_in_backward",
            value=True,
            problem=f"leaves no gradients to sum over {setting.grad_acc} micro-batches",
            accepted="with grad_acc 1",
        )
    _check_adapters(setting, plan)


def _check_adapters(setting: Setting, plan: Plan) -> None:
    if plan.lora_rank is None:
        for field, needs in (
            ("lora_base", "needs adapters: a quantised base does not train"),
            ("lora_saved", "needs adapters: without them everything trains"),
        ):
            if getattr(plan, field):
                raise InputError(
                    field=field,
                    value=getattr(plan, field),
                    problem=needs,
                    accepted="with --lora-rank",
                )
        return
    if plan.lora_rank > setting.architecture.hidden:
        raise InputError(
            field="lora_rank",
            value=plan.lora_rank,
            problem=f"is more than the hidden size {setting.architecture.hidden}",
            accepted=f"1 to {setting.architecture.hidden}",
        )
    if not plan.lora_targets:
        raise InputError(
            field="lora_targets",
            value="()",
            problem="names no layer",
            accepted=", ".join(choices(LoraTarget)),
        )
