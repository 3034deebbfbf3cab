"""Megatron-LM: a shell script that runs ``pretrain_gpt.py`` on mock data.

Options are those of ``megatron/training/arguments.py`` (https://github.com/NVIDIA/Megatron-LM).
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.arch import LatentAttention
from tonnage.formats.told import Told
from tonnage.formats.write.megatron_constants import Options, megatron_scaling
from tonnage.formats.write.megatron_model import model_options
from tonnage.plan.schedule import VEES

_USUAL_STEPS = 100
_RECIPES: dict[str, Options] = {
    "fp32": {},
    "bf16_mixed": {"bf16": None},
    "bf16_mixed_bf16_grads": {"bf16": None, "grad-reduce-in-bf16": None},
    "fp16_mixed": {"fp16": None},
    "fp16_mixed_fp32_grads": {"fp16": None, "accumulate-allreduce-grads-in-fp32": None},
}
_NARROW: dict[str, Options] = {
    "fp8": {"bf16": None, "fp8-format": "hybrid"},
    "mxfp8": {"bf16": None, "fp8-format": "e4m3", "fp8-recipe": "mxfp8"},
    "nvfp4": {"bf16": None, "fp4-format": "e2m1"},
}
_MODULES = {
    "core_attn": "core_attn",
    "mlp": "mlp",
    "moe": "moe",
    "layernorm": "layernorm",
    "moe_act": "moe_act",
    "mla_up_proj": "mla_up_proj",
}
DELAYED = ("layernorm", "moe_act")
"""Modules that Megatron-Core does not run again under FP8 with delayed scaling."""

_SHARDING = ("no_shard", "optim", "optim_grads", "optim_grads_params")


def write(told: Told) -> str:
    """The script."""
    kernels: Options = {"transformer-impl": "transformer_engine"}
    attention = told.choose("attention", flash="auto", eager="unfused")
    kernels["attention-backend"] = attention
    sections = {
        "MODEL_ARGS": model_options(told, megatron_scaling),
        "PARALLEL_ARGS": parallel_options(told),
        "TRAINING_ARGS": {**training_options(told, narrow=True), **kernels},
        "DATA_ARGS": data_options(),
    }
    return script(told, sections, per_node="GPUS_PER_NODE", program="pretrain_gpt.py")


def script(told: Told, sections: dict[str, Options], *, per_node: str, program: str) -> str:
    """A launch script with its options in arrays.

    Args:
        told: the plan.
        sections: options by the name of their array.
        per_node: the variable that holds how many processes a host has.
        program: what is run.
    """
    lines = [
        "#!/bin/bash",
        f"# {told.architecture.name} on {told.cluster.gpus} x {told.cluster.device.name}.",
        "# The data is mock data: give --data-path and a tokenizer in DATA_ARGS and MODEL_ARGS.",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1",
        f"{per_node}={told.per_node}",
        f"NNODES={told.nodes}",
        "NODE_RANK=${NODE_RANK:-0}",
        "MASTER_ADDR=${MASTER_ADDR:-localhost}",
        "MASTER_PORT=${MASTER_PORT:-6000}",
        "",
    ]
    for name, options in sections.items():
        words = (f"    --{option}{_shown(value)}" for option, value in options.items())
        lines += [f"{name}=(", *words, ")", ""]
    launcher = (
        f'torchrun --nproc_per_node "${per_node}" --nnodes "$NNODES" --node_rank "$NODE_RANK" \\'
    )
    arrays = " ".join(f'"${{{name}[@]}}"' for name in sections)
    address = '    --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \\'
    return "\n".join([*lines, launcher, address, f"    {program} {arrays}", ""])


def _shown(value: str | int | float | None) -> str:
    if value is None:
        return ""
    text = str(value)
    plain = text.replace("-", "").replace(".", "").replace("_", "").replace(" ", "").isalnum()
    return f" {text}" if plain else f" '{text}'"


def parallel_options(told: Told) -> Options:
    """Degrees, how layers are split, and how states are sharded."""
    found: Options = {
        "tensor-model-parallel-size": told.take("tp"),
        "pipeline-model-parallel-size": told.take("pp"),
        "context-parallel-size": told.take("cp"),
    }
    if told.take("sp"):
        found["sequence-parallel"] = None
    exchange = told.take("cp_comm")
    if told.plan.cp > 1 and exchange is not None:
        found["cp-comm-type"] = exchange
    if told.architecture.is_moe:
        found["expert-model-parallel-size"] = told.plan.ep
        found["expert-tensor-parallel-size"] = told.plan.etp or 1
    told.take("ep"), told.take("etp")
    return found | _stages(told) | _sharding(told)


def _stages(told: Told) -> Options:
    vees = {"dualpipev": None} if told.kind == "mindspeed" else {}
    told.choose("schedule", **{"1f1b": None, "interleaved": None}, **vees)
    found: Options = {}
    layout = told.take("pipeline_layout")
    chunks = told.take("vpp") if told.plan.schedule not in VEES else 1
    told.take("vpp")
    if layout is not None:
        found["pipeline-model-parallel-layout"] = layout
    elif chunks > 1:
        found["num-virtual-stages-per-pipeline-rank"] = chunks
    group = told.take("microbatch_group")
    if group is not None and chunks > 1:
        found["microbatch-group-size-per-virtual-pipeline-stage"] = group
    for field, option in (
        ("first_stage_layers", "decoder-first-pipeline-num-layers"),
        ("last_stage_layers", "decoder-last-pipeline-num-layers"),
    ):
        value = told.take(field)
        if value is not None and layout is None:
            found[option] = value
    for field, option in (
        ("account_for_embedding", "account-for-embedding-in-pipeline-split"),
        ("account_for_loss", "account-for-loss-in-pipeline-split"),
    ):
        if told.take(field):
            found[option] = None
    return found


def _sharding(told: Told) -> Options:
    plan, found = told.plan, Options()
    stage = told.take("zero")
    if plan.runtime == "megatron-fsdp":
        found["use-megatron-fsdp"] = None
        found["data-parallel-sharding-strategy"] = _SHARDING[stage]
        found["ckpt-format"] = "fsdp_dtensor"
    if stage >= 1:
        found["use-distributed-optimizer"] = None
    reduces = told.take("overlap_grad_reduce")
    if reduces:
        found["overlap-grad-reduce"] = None
    if told.take("overlap_param_gather") and stage >= 1:
        found["overlap-param-gather"] = None
    shard = told.take("hsdp_shard")
    replicas = (plan.dp or 1) * plan.cp
    if shard is not None and shard != replicas:
        found["num-distributed-optimizer-instances"] = replicas // shard
    return found


def training_options(told: Told, *, narrow: bool) -> Options:
    """Batch, number formats, optimizer and what of the activations is computed again.

    Args:
        told: the plan.
        narrow: products in formats of 8 and 4 bits can be asked for.
    """
    told.take("grad_acc")
    found: Options = {
        "micro-batch-size": told.take("mbs"),
        "global-batch-size": told.take("gbs"),
        "seq-length": told.take("seq"),
        "train-iters": told.steps or _USUAL_STEPS,
        "lr": 1e-4,
        "min-lr": 1e-5,
        "lr-decay-style": "cosine",
    }
    found |= told.choose("precision", **_RECIPES, **(_NARROW if narrow else {}))
    found |= _formats(told)
    found |= _optimizer(told)
    found |= _recompute(told)
    loss: Options = {"cross-entropy-loss-fusion": None, "cross-entropy-fusion-impl": "te"}
    found |= told.choose("loss", vocab_parallel={}, vocab_parallel_fused=loss)
    if told.take("tp_comm_overlap"):
        found["tp-comm-overlap"] = None
    if told.take("fp8_param_gather"):
        found["fp8-param-gather"] = None
    if told.take("activation_func_fp8_input_store"):
        found["activation-func-fp8-input-store"] = None
    deferral = told.take("wgrad_deferral_limit")
    if deferral is not None:
        if told.plan.pp == 1:
            told.refuse("wgrad_deferral_limit", "with pp of 2 and more")
        found |= {"defer-embedding-wgrad-compute": None, "wgrad-deferral-limit": deferral}
    if told.take("cuda_graphs"):
        found["enable-cuda-graph"] = None
    predictors = told.take("mtp")
    if predictors:
        found["mtp-num-layers"] = predictors
    return found | _experts(told) | _habits(told)


def _formats(told: Told) -> Options:
    found: Options = {}
    for field, *options in (
        ("gradients_dtype", "main-grads-dtype"),
        ("master_dtype", "main-params-dtype"),
        ("moments_dtype", "exp-avg-dtype", "exp-avg-sq-dtype"),
    ):
        value = told.take(field)
        if value is not None:
            found |= dict.fromkeys(options, value)
    return {"use-precision-aware-optimizer": None, **found} if found else {}


def _optimizer(told: Told) -> Options:
    found: Options = told.choose(
        "optimizer",
        adamw={"optimizer": "adam"},
        adam={"optimizer": "adam"},
        momentum={"optimizer": "sgd"},
        muon={"optimizer": "muon"},
    )
    told.choose("optimizer_step", fused=None)
    share = told.take("offload_optimizer")
    if share:
        found = {**found, "optimizer-cpu-offload": None, "optimizer-offload-fraction": share}
    return found


def _recompute(told: Told) -> Options:
    kind = told.take("recompute")
    method, layers = told.take("recompute_method"), told.take("recompute_num_layers")
    modules = told.take("recompute_modules")
    if kind == "full":
        if layers == 0:
            told.refuse("recompute_num_layers", "a number of layers")
        return {
            "recompute-granularity": "full",
            "recompute-method": method,
            "recompute-num-layers": layers,
        }
    if kind == "none":
        return {}
    unknown = [name for name in modules if name not in _MODULES]
    if unknown:
        told.refuse("recompute_modules", ", ".join(_MODULES))
    _check_modules(told, modules)
    named = " ".join(_MODULES[name] for name in modules)
    return {"recompute-granularity": "selective", "recompute-modules": named}


def _check_modules(told: Told, modules: Sequence[str]) -> None:
    """Refuse modules that the model has not: Megatron-Core does not start with them."""
    mixers = [layer.mixer for layer in told.architecture.layers]
    if "moe_act" in modules and not told.architecture.is_moe:
        told.refuse("recompute_modules", "moe_act with experts alone")
    if "mla_up_proj" in modules and not any(isinstance(m, LatentAttention) for m in mixers):
        told.refuse("recompute_modules", "mla_up_proj with latent attention alone")
    late = [name for name in modules if name in DELAYED]
    if late and told.plan.precision == "fp8":
        told.refuse("recompute_modules", f"no {', '.join(late)} under FP8 with delayed scaling")


def _experts(told: Told) -> Options:
    dispatcher, capacity = told.take("moe_dispatcher"), told.take("moe_capacity_factor")
    if not told.architecture.is_moe:
        return {}
    found: Options = {"moe-token-dispatcher-type": dispatcher}
    if dispatcher == "deepep":
        found = {"moe-token-dispatcher-type": "flex", "moe-enable-deepep": None}
    if capacity is not None:
        found["moe-expert-capacity-factor"] = capacity
    return found


def _habits(told: Told) -> Options:
    found: Options = {}
    multiple = told.habit("vocab_multiple")
    if multiple is not None:
        found["make-vocab-size-divisible-by"] = multiple
    if (told.habit("placeholder_gradients") or "true").lower() in ("false", "no", "off"):
        found["no-gradient-accumulation-fusion"] = None
    return found


def data_options() -> Options:
    """Data that the tool makes up."""
    return {"mock-data": None, "split": "100,0,0", "eval-iters": 0, "log-interval": 10}
