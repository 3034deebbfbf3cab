"""A plan as accelerate's configuration YAML, for ``accelerate launch --config_file``.

Source: accelerate 1.x, ``commands/config/config_args.py`` and ``utils/dataclasses.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import yaml

from tonnage.cluster import Cluster
from tonnage.formats.write.written import SCRIPT_FIELDS, Written, cannot_say, say
from tonnage.plan import Plan, Resolved

RUNTIMES = (*("accelerate", "accelerate-fsdp2", "deepspeed", "ddp", "transformers", "megatron"),)

_MIXED = {
    "accelerate": {"bf16-amp": "bf16", "fp16-amp": "fp16", "fp8-amp": "fp8", "bf16": "no"},
    "deepspeed": {"bf16-mixed-bf16-grads": "bf16", "fp16-mixed": "fp16"},
    "megatron": {"bf16-mixed": "bf16", "fp16-mixed": "fp16", "fp32": "no"},
    "ddp": {"bf16": "bf16", "bf16-amp": "bf16", "fp16-amp": "fp16", "fp8-amp": "fp8"},
}
"""accelerate's word for a recipe, by the engine that it is trained with."""
_MIXED["accelerate-fsdp2"] = _MIXED["accelerate"]
_MIXED["transformers"] = _MIXED["ddp"]

_BATCH = ("mbs", "grad_acc")


def write(resolved: Resolved, cluster: Cluster) -> Written:
    """The configuration of a plan under one of `RUNTIMES`.

    Raises:
        InputError: a field of the plan is one that the file has no key for.
    """
    plan = resolved.plan
    engine, told = _ENGINES[plan.runtime](plan, cluster)
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        **engine,
        "mixed_precision": _mixed(plan),
        "machine_rank": 0,
        "main_training_function": "main",
        "num_machines": cluster.nodes,
        "num_processes": cluster.gpus,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }
    script = tuple(field for field in (*_BATCH, *SCRIPT_FIELDS) if field not in told)
    beside = say(plan, script)
    if plan.optimizer != "adamw":
        beside = (f"the training script decides: optimizer {plan.optimizer}", *beside)
    return Written(text=yaml.safe_dump(config, sort_keys=False), beside=beside)


def _mixed(plan: Plan) -> str:
    words = _MIXED[plan.runtime]
    if plan.precision not in words and plan.lora_rank is None:
        raise cannot_say("accelerate", "precision", plan.precision, ", ".join(words))
    return words.get(plan.precision or "", "bf16")


def _plain(_: Plan, cluster: Cluster) -> tuple[dict[str, object], frozenset[str]]:
    """One process, or replicas that all have everything."""
    return {"distributed_type": "MULTI_GPU" if cluster.gpus > 1 else "NO"}, frozenset()


def _fsdp(plan: Plan, cluster: Cluster) -> tuple[dict[str, object], frozenset[str]]:
    """FSDP by its version; stage 2 keeps parameters whole after forward."""
    second = plan.runtime == "accelerate-fsdp2"
    strategy = "FULL_SHARD" if plan.zero == 3 else "SHARD_GRAD_OP"
    if not second and plan.hsdp_shard is not None:
        if plan.hsdp_shard != cluster.gpus_per_node:
            raise cannot_say(
                "accelerate", "hsdp_shard", plan.hsdp_shard, f"{cluster.gpus_per_node}, a node"
            )
        strategy = "HYBRID_SHARD" if plan.zero == 3 else "HYBRID_SHARD_ZERO2"
    full = plan.recompute == "full"
    config: dict[str, object] = {
        "fsdp_version": 2 if second else 1,
        "fsdp_activation_checkpointing": full,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": plan.offload_parameters,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
    if second:
        config["fsdp_reshard_after_forward"] = plan.zero == 3
    else:
        config |= {
            "fsdp_sharding_strategy": strategy,
            "fsdp_use_orig_params": True,
            "fsdp_sync_module_states": True,
        }
    engine: dict[str, object] = {"distributed_type": "FSDP", "fsdp_config": config}
    if second:
        engine |= _mesh(plan, cluster)
    return engine, frozenset({"recompute"} if full else ())


def _mesh(plan: Plan, cluster: Cluster) -> dict[str, object]:
    """``parallelism_config``, where there is more than sharding over every device."""
    if plan.tp == plan.cp == 1 and plan.hsdp_shard is None:
        return {}
    ranks = cluster.gpus // (plan.tp * plan.cp)
    shards = ranks if plan.hsdp_shard is None else plan.hsdp_shard // plan.cp
    sizes = {"dp_replicate": ranks // shards, "dp_shard": shards, "tp": plan.tp, "cp": plan.cp}
    named = {f"parallelism_config_{name}_size": size for name, size in sizes.items()}
    return {"parallelism_config": named}


def _deepspeed(plan: Plan, _: Cluster) -> tuple[dict[str, object], frozenset[str]]:
    if plan.hsdp_shard is not None:
        raise cannot_say("accelerate", "hsdp_shard", plan.hsdp_shard, "leave it out")
    config: dict[str, object] = {
        "deepspeed_multinode_launcher": "standard",
        "gradient_accumulation_steps": plan.grad_acc,
        "offload_optimizer_device": "cpu" if plan.offload_optimizer else "none",
        "offload_param_device": "cpu" if plan.offload_parameters else "none",
        "zero3_init_flag": plan.zero == 3,
        "zero_stage": plan.zero,
    }
    engine: dict[str, object] = {"distributed_type": "DEEPSPEED", "deepspeed_config": config}
    return engine, frozenset({"grad_acc"})


def _megatron(plan: Plan, _: Cluster) -> tuple[dict[str, object], frozenset[str]]:
    """Megatron-LM's degrees; a batch is counted in micro-batches."""
    if plan.vpp > 1 or plan.first_stage_layers or plan.pipeline_layout:
        raise cannot_say("accelerate", "vpp", plan.vpp, "an even split without virtual stages")
    named: dict[str, object] = {
        "tp_degree": plan.tp,
        "pp_degree": plan.pp,
        "context_parallel_size": plan.cp,
        "expert_model_parallel_size": plan.ep,
        "num_micro_batches": plan.grad_acc,
        "sequence_parallelism": bool(plan.sp),
        "use_distributed_optimizer": plan.zero == 1,
        "gradient_clipping": 1.0,
    }
    if plan.recompute != "none":
        named["recompute_granularity"] = plan.recompute
    if plan.recompute == "full":
        named["recompute_method"] = plan.recompute_method
        named["recompute_num_layers"] = plan.recompute_num_layers
    config = {f"megatron_lm_{name}": value for name, value in named.items()}
    engine: dict[str, object] = {"distributed_type": "MEGATRON_LM", "megatron_lm_config": config}
    told = {"grad_acc", "recompute", "recompute_method", "recompute_num_layers"}
    return engine, frozenset(told)


_Engine = Callable[[Plan, Cluster], tuple[dict[str, object], frozenset[str]]]
_ENGINES: dict[str, _Engine] = {
    "accelerate": _fsdp,
    "accelerate-fsdp2": _fsdp,
    "deepspeed": _deepspeed,
    "ddp": _plain,
    "transformers": _plain,
    "megatron": _megatron,
}
