"""nanotron: its YAML (https://github.com/huggingface/nanotron, ``nanotron/config``)."""

from __future__ import annotations

from typing import Any

import yaml

from tonnage.arch import MLP, Attention, Layer, MoE
from tonnage.formats.told import Told

_USUAL_STEPS = 100
_RECIPES: dict[str, tuple[str, bool]] = {
    "bf16_mixed_accumulate": ("bfloat16", True),
    "bf16": ("bfloat16", False),
    "fp32": ("float32", False),
}
"""The format of the weights, and whether gradients are summed in fp32."""


def write(told: Told) -> str:
    """The file, with how it is launched in a comment."""
    config = {
        "general": {"project": "tonnage", "run": told.architecture.name, "seed": 42},
        "checkpoints": {"checkpoints_path": "checkpoints", "checkpoint_interval": 1000},
        "parallelism": _parallelism(told),
        "model": _model(told),
        "tokenizer": {"tokenizer_name_or_path": "gpt2"},
        "tokens": _tokens(told),
        "optimizer": _optimizer(told),
        "logging": {"log_level": "info", "iteration_step_info_interval": 1},
        "data_stages": [
            {
                "name": "Training",
                "start_training_step": 1,
                "data": {"dataset": None, "num_loading_workers": 1, "seed": 42},
            }
        ],
    }
    head = (
        f"# {told.architecture.name} on {told.cluster.gpus} x {told.cluster.device.name}; "
        "the data is what nanotron makes up:\n"
        f"# torchrun --nnodes {told.nodes} --nproc-per-node {told.per_node} run_train.py "
        "--config-file THIS_FILE\n"
    )
    body: str = yaml.safe_dump(config, sort_keys=False)
    return head + body


def _parallelism(told: Told) -> dict[str, Any]:
    engine = told.choose("schedule", **{"1f1b": "1f1b", "gpipe": "afab"})
    section: dict[str, Any] = {
        "dp": told.plan.dp,
        "pp": told.take("pp"),
        "tp": told.take("tp"),
        "expert_parallel_size": told.take("ep"),
        "pp_engine": engine,
        "tp_mode": "REDUCE_SCATTER" if told.take("sp") else "ALL_REDUCE",
        "tp_linear_async_communication": told.plan.tp > 1 and bool(told.plan.sp),
    }
    if told.take("cp") > 1:
        section["context_parallel_size"] = told.plan.cp
    told.choose("recompute_method", uniform=None)
    if told.take("recompute_num_layers") != 1:
        told.refuse("recompute_num_layers", "1")
    kind, modules = told.take("recompute"), told.take("recompute_modules")
    if kind == "selective" and tuple(modules) != ("moe",):
        told.refuse("recompute", "none, full, or selective for moe alone")
    section["recompute_layer"] = kind == "full"
    if kind == "selective":
        section["moe_layer_recompute"] = True
    told.take("vpp"), told.take("etp")
    return section


def _tokens(told: Told) -> dict[str, Any]:
    told.take("gbs")
    return {
        "sequence_length": told.take("seq"),
        "train_steps": told.steps or _USUAL_STEPS,
        "micro_batch_size": told.take("mbs"),
        "batch_accumulation_per_replica": told.take("grad_acc"),
    }


def _optimizer(told: Told) -> dict[str, Any]:
    fused = told.choose("optimizer_step", fused=True, foreach=False)
    told.choose("optimizer", adamw=None, adam=None)
    return {
        "zero_stage": told.take("zero"),
        "weight_decay": 0.01,
        "clip_grad": 1.0,
        "accumulate_grad_in_fp32": told.choose("precision", **_RECIPES)[1],
        "learning_rate_scheduler": {
            "learning_rate": 3e-4,
            "lr_warmup_steps": 2,
            "lr_warmup_style": "linear",
            "lr_decay_style": "cosine",
            "min_decay_lr": 1e-5,
        },
        "optimizer_factory": {
            "name": "adamW",
            "adam_beta1": 0.9,
            "adam_beta2": 0.95,
            "adam_eps": 1e-8,
            "torch_adam_is_fused": fused,
        },
    }


def _model(told: Told) -> dict[str, Any]:
    told.take("attention"), told.take("loss")
    told.take("overlap_grad_reduce"), told.take("overlap_param_gather")
    multiple = told.habit("vocab_multiple")
    return {
        "dtype": told.choose("precision", **_RECIPES)[0],
        "ddp_bucket_cap_mb": 25,
        "init_method": {"std": 0.02},
        "make_vocab_size_divisible_by": int(multiple or 1),
        "model_config": _config(told),
    }


def _config(told: Told) -> dict[str, Any]:
    """Llama's shape; Qwen2's class where there are experts, a bias or a window."""
    facts, layer = told.architecture, told.architecture.layers[-1]
    mixer, block = layer.mixer, layer.mlp
    if not isinstance(mixer, Attention) or block is None:
        told.warn("nanotron has attention and an MLP in every layer: such a model is written", "*")
        mixer = Attention(heads=max(facts.hidden // 128, 1), kv_heads=1, head_dim=128)
    expert = block.expert if isinstance(block, MoE) else block
    _warn(told, layer, mixer, expert)
    config: dict[str, Any] = {
        "hidden_size": facts.hidden,
        "intermediate_size": expert.intermediate if expert is not None else 4 * facts.hidden,
        "num_hidden_layers": len(facts.layers),
        "num_attention_heads": mixer.heads,
        "num_key_value_heads": mixer.kv_heads,
        "hidden_act": "silu",
        "max_position_embeddings": facts.max_positions or told.plan.seq,
        "tie_word_embeddings": facts.tied_embeddings,
        "vocab_size": facts.vocab,
        **_constants(told),
    }
    if not (mixer.qkv_bias or isinstance(block, MoE) or mixer.window):
        return {"is_llama_config": True, **config}
    config |= {"is_qwen2_config": True, "attention_bias": mixer.qkv_bias}
    if mixer.window:
        config["sliding_window_size"] = mixer.window
    if isinstance(block, MoE):
        config["moe_config"] = {
            "num_experts": block.experts,
            "top_k": block.top_k,
            "moe_intermediate_size": block.expert.intermediate,
            "enable_shared_expert": block.shared is not None,
            "token_dispatcher_type": "alltoall",
        }
        if block.shared is not None:
            config["moe_config"]["shared_expert_intermediate_size"] = block.shared.intermediate
    told.take("moe_dispatcher")
    return config


def _constants(told: Told) -> dict[str, Any]:
    """Rotary base and epsilon; positions turn by halves of a head, as in config.json's class."""
    constants = told.architecture.constants
    found: dict[str, Any] = {"rope_interleaved": False}
    if constants.rope_base is None:
        told.warn(f"the rotary base of {told.architecture.name} is not known: 10000 is left")
    else:
        found["rope_theta"] = constants.rope_base
    if constants.norm_eps is not None:
        found["rms_norm_eps"] = constants.norm_eps
    if constants.rope_scaling is not None:
        told.warn(
            f"nanotron does not stretch rotary positions ({constants.rope_scaling.kind}): "
            "they are written as they are",
            "rope_scaling",
        )
    return found


def _warn(told: Told, layer: Layer, mixer: Attention, expert: MLP | None) -> None:
    facts = told.architecture
    if mixer.head_dim * mixer.heads != facts.hidden:
        told.warn("nanotron's heads share the hidden size evenly: a wider head is lost", "head_dim")
    if expert is None or not expert.gated or expert.activation not in ("silu", "swish"):
        told.warn(
            "nanotron's Llama has SwiGLU: another MLP is lost", "mlp", "gated", "activation", "bias"
        )
    norm = layer.mixer_norm
    if norm is None or norm.kind != "rmsnorm" or facts.learned_positions or not mixer.rope:
        told.warn(
            "nanotron's Llama has RMSNorm and rotary positions: others are lost",
            *("mixer_norm", "mlp_norm", "final_norm", "learned_positions", "rope"),
        )
    if mixer.qk_norm is not None or layer.mixer_output_norm is not None or layer.parallel:
        told.warn(
            "nanotron's Llama has neither further norms nor parallel parts: they are lost",
            *("qk_norm", "mixer_output_norm", "mlp_output_norm", "parallel"),
        )
    if len(facts.kinds()) > 1:
        told.warn(
            "nanotron's layers are all alike: the last one's shape is written for each", "layers"
        )
