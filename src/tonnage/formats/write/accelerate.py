"""accelerate: its configuration YAML, for ``accelerate launch --config_file``.

Source: accelerate 1.x, ``commands/config/config_args.py`` and ``utils/dataclasses.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import yaml

from tonnage.formats.told import Told
from tonnage.formats.write.script import SCRIPT

_SHARDED = {"bf16_amp": "bf16", "fp16_amp": "fp16", "fp8_amp": "fp8", "bf16": "no"}
_REPLICATED = {"bf16": "bf16", "bf16_amp": "bf16", "fp16_amp": "fp16", "fp8_amp": "fp8"}
_MIXED: dict[str, dict[str, str]] = {
    "accelerate": _SHARDED,
    "accelerate-fsdp2": _SHARDED,
    "deepspeed": {"bf16_mixed_bf16_grads": "bf16", "fp16_mixed": "fp16", "fp32": "no"},
    "megatron": {"bf16_mixed": "bf16", "fp16_mixed": "fp16", "fp32": "no"},
    "ddp": _REPLICATED,
    "transformers": _REPLICATED,
}
"""accelerate's word for a recipe, by the runtime."""


def write(told: Told) -> str:
    """The configuration; what a training script decides is said beside it.

    Raises:
        InputError: a field of the plan is one that the file has no key for.
    """
    engine = _ENGINES[told.plan.runtime](told)
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        **engine,
        "mixed_precision": _mixed(told),
        "machine_rank": 0,
        "main_training_function": "main",
        "num_machines": told.nodes,
        "num_processes": told.cluster.gpus,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }
    told.beside("optimizer", "mbs", "grad_acc", "gbs", *SCRIPT)
    text: str = yaml.safe_dump(config, sort_keys=False)
    return text


def _mixed(told: Told) -> str:
    """Mixed precision: adapters train over a base in 16 bits, which is loaded so."""
    plan = told.plan
    if plan.lora_rank is not None and plan.precision == "bf16":
        told.take("precision"), told.take("reduction_dtype")
        return "bf16"
    word: str = told.choose("precision", **_MIXED[plan.runtime])
    if plan.runtime in ("ddp", "transformers") and plan.precision != "bf16":
        told.warn(f"precision {plan.precision}: the training script loads the weights in fp32")
    if word == "no":
        told.habit("autocast")  # there is none without mixed precision
    sharded = plan.runtime in ("accelerate", "accelerate-fsdp2") and word != "no"
    if told.take("reduction_dtype") not in ((word, None) if sharded else (None,)):
        told.refuse("reduction_dtype", word if sharded else "leave it out")
    if sharded and plan.reduction_dtype is None:
        told.warn(f"accelerate reduces gradients in {word}, not in fp32")
    return word


def _plain(told: Told) -> dict[str, object]:
    """One process, or replicas that all have everything."""
    told.take("zero")
    return {"distributed_type": "MULTI_GPU" if told.cluster.gpus > 1 else "NO"}


def _fsdp(told: Told) -> dict[str, object]:
    """FSDP by its version; stage 2 keeps parameters whole after forward."""
    second = told.plan.runtime == "accelerate-fsdp2"
    zero, full = told.take("zero"), told.plan.recompute == "full"
    config: dict[str, object] = {
        "fsdp_version": 2 if second else 1,
        "fsdp_activation_checkpointing": full,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": told.take("offload_parameters"),
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
    if full:
        told.take("recompute")
    engine: dict[str, object] = {"distributed_type": "FSDP", "fsdp_config": config}
    if second:
        config["fsdp_reshard_after_forward"] = zero == 3
        return {**engine, **_mesh(told)}
    strategy = {3: "FULL_SHARD", 2: "SHARD_GRAD_OP"}.get(zero, "NO_SHARD")
    shard = told.take("hsdp_shard")
    if shard not in (None, told.per_node):
        told.refuse("hsdp_shard", f"{told.per_node}: a host")
    if shard is not None:
        strategy = "HYBRID_SHARD" if zero == 3 else "HYBRID_SHARD_ZERO2"
    config["fsdp_sharding_strategy"] = strategy
    config["fsdp_use_orig_params"] = True
    config["fsdp_sync_module_states"] = True
    return engine


def _mesh(told: Told) -> dict[str, object]:
    """``parallelism_config``, where there is more than sharding over every device."""
    tp, cp, shard = told.take("tp"), told.take("cp"), told.take("hsdp_shard")
    if told.take("sp"):
        told.refuse("sp", "false")
    if tp == cp == 1 and shard is None:
        return {}
    if shard is not None and shard % cp:
        told.refuse("hsdp_shard", f"a multiple of cp {cp}")
    ranks = told.cluster.gpus // (tp * cp)
    shards = ranks if shard is None else shard // cp
    sizes = {"dp_replicate": ranks // shards, "dp_shard": shards, "tp": tp, "cp": cp}
    named: dict[str, object] = {
        f"parallelism_config_{name}_size": size for name, size in sizes.items()
    }
    if cp > 1:
        named["parallelism_config_cp_comm_strategy"] = told.choose(
            "cp_comm", allgather="allgather", p2p="alltoall"
        )
    return {"parallelism_config": named}


def _deepspeed(told: Told) -> dict[str, object]:
    """The keys that stand for a DeepSpeed JSON."""
    zero = told.take("zero")
    config: dict[str, object] = {
        "deepspeed_multinode_launcher": "standard",
        "gradient_accumulation_steps": told.take("grad_acc"),
        "offload_optimizer_device": "cpu" if told.take("offload_optimizer") else "none",
        "offload_param_device": "cpu" if told.take("offload_parameters") else "none",
        "zero3_init_flag": zero == 3,
        "zero_stage": zero,
    }
    return {"distributed_type": "DEEPSPEED", "deepspeed_config": config}


def _megatron(told: Told) -> dict[str, object]:
    """Megatron-LM's degrees; a batch is counted in micro-batches."""
    plan = told.plan
    named: dict[str, object] = {
        "tp_degree": told.take("tp"),
        "pp_degree": told.take("pp"),
        "context_parallel_size": told.take("cp"),
        "expert_model_parallel_size": told.take("ep"),
        "num_micro_batches": told.take("grad_acc"),
        "sequence_parallelism": bool(told.take("sp")),
        "use_distributed_optimizer": told.take("zero") == 1,
        "gradient_clipping": 1.0,
    }
    if told.architecture.is_moe:
        named["expert_tensor_parallel_size"] = told.take("etp")
    if told.take("last_stage_layers") is not None:
        named["decoder_last_pipeline_num_layers"] = plan.last_stage_layers
    if told.take("recompute") != "none":
        named["recompute_granularity"] = plan.recompute
    if plan.recompute == "full":
        named["recompute_method"] = told.take("recompute_method")
        named["recompute_num_layers"] = told.take("recompute_num_layers")
    config = {f"megatron_lm_{name}": value for name, value in named.items()}
    return {"distributed_type": "MEGATRON_LM", "megatron_lm_config": config}


_ENGINES: dict[str, Callable[[Told], dict[str, object]]] = {
    "accelerate": _fsdp,
    "accelerate-fsdp2": _fsdp,
    "deepspeed": _deepspeed,
    "ddp": _plain,
    "transformers": _plain,
    "megatron": _megatron,
}
