"""What makes a plan impossible, each as one error that names the nearest legal values."""

from __future__ import annotations

import math
import typing

from tonnage.algebra import ceil_div
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError, NotModelledError
from tonnage.plan.check_layer import check_layer
from tonnage.plan.layout import divisors_text
from tonnage.plan.plan import LoraTarget, Plan
from tonnage.plan.setting import Setting
from tonnage.runtime import Runtime

LARGEST = 10**9
"""No degree, batch or length is past this: a typing error, and a bound on the arithmetic."""

_COUNTS = (
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "hsdp_shard",
    "mbs",
    "gbs",
    "grad_acc",
    "seq",
    "first_stage_layers",
    "last_stage_layers",
    "lora_rank",
)
_WORDS = (
    "schedule",
    "optimizer_step",
    "recompute",
    "recompute_method",
    "attention",
    "moe_dispatcher",
    "lora_base",
    "iteration",
)
_WORD_LISTS = ("recompute_modules", "lora_targets")


def positive(field: str, value: object) -> int:
    """The value, if it is a whole number that a degree, a batch or a length can be."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(
            field=field,
            value=value,
            problem="is not a positive whole number",
            accepted=f"1 to {LARGEST}",
        )
    return value


def check_refused(plan: Plan) -> None:
    """Refuse what cannot be a value of its field, and what is not accounted for yet."""
    for name in _COUNTS:
        if getattr(plan, name) is not None:
            positive(name, getattr(plan, name))
    if plan.recompute_num_layers != 0:
        positive("recompute_num_layers", plan.recompute_num_layers)
    _check_words(plan)
    _check_moe_numbers(plan)
    refused = {
        "schedule": plan.schedule in ("zero-bubble", "dualpipe", "dualpipev"),
        "compile": plan.compile,
        "cuda_graphs": plan.cuda_graphs,
        "tp_comm_overlap": plan.tp_comm_overlap,
        "attention_version": plan.attention_version is not None,
        "offload_optimizer": plan.offload_optimizer != 0.0,
        "offload_parameters": plan.offload_parameters,
        "offload_activations": plan.offload_activations,
        "moe_dispatcher": plan.moe_dispatcher != "alltoall",
        "mtp": plan.mtp != 0,
        "freeze": bool(plan.freeze),
        "packing": plan.packing,
    }
    for name, asked in refused.items():
        if asked:
            raise NotModelledError(
                field=name,
                value=getattr(plan, name),
                problem="is not modelled yet",
                accepted=f"leave {name} out",
            )


def _check_words(plan: Plan) -> None:
    hints = typing.get_type_hints(Plan)
    for name in (*_WORDS, *_WORD_LISTS):
        value = getattr(plan, name)
        choices = _choices(hints[name])
        for word in value if name in _WORD_LISTS else (value,):
            if word is not None and word not in choices:
                raise InputError(
                    field=name, value=word, problem="is not known", accepted=", ".join(choices)
                )


def _choices(hint: object) -> tuple[str, ...]:
    """Every string that a type made of Literals, unions and tuples allows."""
    if isinstance(hint, str):
        return (hint,)
    return tuple(choice for part in typing.get_args(hint) for choice in _choices(part))


def _check_moe_numbers(plan: Plan) -> None:
    for name, least in (("moe_capacity_factor", 0.01), ("moe_imbalance", 1.0)):
        value = getattr(plan, name)
        if value is None:
            continue
        if not (isinstance(value, int | float) and least <= value <= 1000.0):
            raise InputError(
                field=name,
                value=value,
                problem="is out of range",
                accepted=f"{least:g} to 1000",
            )


def check_degrees(
    plan: Plan, architecture: Architecture, cluster: Cluster, runtime: Runtime
) -> None:
    """Check the degrees against the runtime, the ranks and the architecture."""
    _check_runtime(plan, runtime)
    _check_world(plan, cluster)
    for layer in architecture.kinds():
        check_layer(plan, layer)
    if plan.ep > 1 and not architecture.is_moe:
        raise InputError(
            field="ep",
            value=plan.ep,
            problem=f"needs experts, and {architecture.name} has none",
            accepted="1",
        )
    if plan.vpp > 1 and plan.pp == 1:
        raise InputError(
            field="vpp",
            value=plan.vpp,
            problem="needs pipeline stages, and pp is 1",
            accepted="1, or pp of 2 and more",
        )
    if (plan.vpp > 1) != (plan.schedule == "interleaved"):
        raise InputError(
            field="schedule",
            value=plan.schedule,
            problem=f"contradicts vpp {plan.vpp}",
            accepted="interleaved with vpp of 2 and more, else 1f1b or gpipe",
        )
    limit = architecture.max_positions if architecture.learned_positions else None
    if limit is not None and (plan.seq or 1) > limit:
        raise InputError(
            field="seq",
            value=plan.seq,
            problem=f"is more than the {limit} learnt positions",
            accepted=f"1 to {limit}",
        )


def _check_runtime(plan: Plan, runtime: Runtime) -> None:
    for axis in ("tp", "pp", "vpp", "cp", "ep"):
        if getattr(plan, axis) > 1 and axis not in runtime.axes:
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
            accepted=divisors_text(dp * plan.cp),
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
            accepted=_nearest_multiples(seq, split),
        )
    if plan.vpp > 1 and setting.grad_acc % plan.pp:
        raise InputError(
            field="grad_acc",
            value=setting.grad_acc,
            problem=f"is no multiple of pp {plan.pp}, which interleaving asks for",
            accepted=_nearest_multiples(setting.grad_acc, plan.pp),
        )
    _check_adapters(setting, plan)


def _nearest_multiples(number: int, of: int) -> str:
    below, above = number // of * of, ceil_div(number, of) * of
    return f"{below} or {above} (the nearest)" if below else f"{above} (the nearest)"


def _check_adapters(setting: Setting, plan: Plan) -> None:
    if plan.lora_rank is None:
        if plan.lora_base is not None:
            raise InputError(
                field="lora_base",
                value=plan.lora_base,
                problem="needs adapters: a quantised base does not train",
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
            accepted=", ".join(_choices(LoraTarget)),
        )
