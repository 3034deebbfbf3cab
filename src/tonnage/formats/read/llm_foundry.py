"""LLM Foundry: its training YAML (https://github.com/mosaicml/llm-foundry, ``scripts/train``).

The trainer is Composer over FSDP1; ``mpt_causal_lm`` spells its shape out, ``hf_causal_lm``
names a model. Files for the MosaicML platform keep the same keys under ``parameters``.
"""

from __future__ import annotations

from tonnage.arch import read_config
from tonnage.arch.families.megatron import from_fields
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.lora import read_peft

_SHARDING = {
    "FULL_SHARD": 3,
    "SHARD_GRAD_OP": 2,
    "NO_SHARD": 0,
    "HYBRID_SHARD": 3,
    "_HYBRID_SHARD_ZERO2": 2,
}
_PRECISIONS = {
    "amp_bf16": "bf16-amp",
    "amp_fp16": "fp16-amp",
    "fp32": "fp32",
    "amp_fp8": "fp8-amp",
    "bf16": "bf16",
}
_OPTIMIZERS = {"decoupled_adamw": "adamw", "adamw": "adamw", "decoupled_lionw": "lion"}
_IGNORED = (
    *("variables*", "run_name*", "tokenizer.*", "train_loader*", "eval_loader*", "scheduler.*"),
    *("optimizer.*", "algorithms*", "eval_*", "seed", "device_eval_*", "dist_timeout", "loggers*"),
    *(
        "expandable_segments",
        "progress_bar",
        "log_*",
        "console_*",
        "callbacks*",
        "save_*",
        "load_*",
    ),
    *(
        "tokenizer_name",
        "autoresume",
        "max_split_size_mb",
        "python_log_level",
        "icl_*",
        "metadata.*",
        "profiler.*",
    ),
    *("global_seed", "data_local", "data_remote", "fsdp_config.limit_all_gathers", "tp_config*"),
    *("fsdp_config.state_dict_type", "fsdp_config.verbose", "fsdp_config.use_orig_params"),
    *("fsdp_config.forward_prefetch", "fsdp_config.backward_prefetch", "fsdp_config.sync_*"),
    *(
        "fsdp_config.activation_checkpointing_reentrant",
        "fsdp_config.load_*",
        "fsdp_config.process*",
    ),
    *(
        "fsdp_config.auto_wrap",
        "fsdp_config.keep_low*",
        "fsdp_config.flatten*",
        "fsdp_config.min_*",
    ),
    *("model.init_device", "model.use_auth_token", "model.pretrained", "model.init_config.*"),
    *("model.trust_remote_code", "model.attn_config.*", "model.verbose", "model.loss_fn"),
    *("model.use_logits", "model.use_train_metrics", "model.allow_*", "model.should_save*"),
    *("model.attention_*", "model.fc_type*", "model.norm_eps", "model.shift_labels"),
    *("integrations*", "command", "image", "name", "scheduling*", "cluster", "gpu_type", "code_*"),
    *("compute.*", "compile_config*", "only_*", "accumulate_train_*", "spin_*", "max_seq_len"),
)


_EXPERT_IGNORED = (
    *(
        "moe_loss_weight",
        "moe_lbl_in_fp32",
        "moe_jitter_eps",
        "moe_normalize*",
        "memory_optimized_mlp",
    ),
    *("uniform_expert_assignment", "bf16_impl", "moe_zloss*", "fc_type*", "mlp_impl"),
    *("moe_world_size", "moe_weight_parallelism", "moe_expert_model_parallelism"),
)


def detect(document: Document) -> bool:
    """Whether the content is LLM Foundry's."""
    inner = document.values.get("parameters")
    if document.has("icl_tasks") and document.any("models", "model"):
        return True
    trains = ("global_train_batch_size", "device_train_microbatch_size", "device_train_batch_size")
    if document.any(*(f"parameters.{name}" for name in trains)):
        return isinstance(inner, dict)
    return document.any(*trains) or document.has("max_duration", "train_loader")


def read(document: Document) -> Launch:
    """Read an LLM Foundry file.

    Raises:
        InputError: it evaluates and does not train, or a key has no value of its type.
    """
    fields = Fields(document.values)
    at = "parameters." if document.any("parameters.model") else ""
    if not document.any(f"{at}train_loader", f"{at}global_train_batch_size", f"{at}max_duration"):
        raise not_a_launch(document, "it evaluates models")
    draft = Draft("llm-foundry", fields, "composer")
    draft.shrinks = True
    _read_batch(draft, at)
    _read_engine(draft, at)
    _read_model(document, draft, at)
    fields.ignore(*(f"{at}{pattern}" for pattern in _IGNORED), *_IGNORED)
    return draft.finish()


def _read_batch(draft: Draft, at: str) -> None:
    fields = draft.fields
    micro = f"{at}device_train_microbatch_size"
    if fields.peek(micro) == "auto":
        fields.leave(micro, "what fits is found when it runs: give --mbs")
        draft.lack("mbs")
    elif draft.whole("mbs", micro) is None:
        draft.lack("mbs")
    if draft.whole("gbs", f"{at}global_train_batch_size") is None:
        draft.lack("gbs")
    places = (f"{at}max_seq_len", f"{at}model.max_seq_len", f"{at}train_loader.dataset.max_seq_len")
    if draft.whole("seq", *places) is None:
        draft.lack("seq")
    packed = f"{at}train_loader.dataset.packing_ratio"
    if str(fields.take(packed)).lower() not in ("none", "1", "1.0", "false"):
        draft.put("packing", True, packed)
    length = fields.word(f"{at}max_duration") or ""
    for unit, name in (("ba", "steps"), ("tok", "tokens")):
        number = length.removesuffix(unit)
        if number != length and number.isdigit() and len(number) < 19:
            setattr(draft, name, int(number))
    draft.gpus = fields.whole("compute.gpus", "gpu_num", "compute.num_gpus", least=1)


def _read_engine(draft: Draft, at: str) -> None:
    fields, fsdp = draft.fields, f"{at}fsdp_config."
    precision = (fields.word(f"{at}precision") or "amp_bf16").lower()
    draft.put("precision", _PRECISIONS.get(precision, precision), f"{at}precision")
    named = (fields.word(f"{at}optimizer.name") or "decoupled_adamw").lower()
    draft.put("optimizer", _OPTIMIZERS.get(named, named), f"{at}optimizer.name")
    if not fields.under(f"{at}fsdp_config"):
        draft.put("zero", 0)
        return
    strategy = (fields.word(f"{fsdp}sharding_strategy") or "FULL_SHARD").upper()
    draft.put("zero", _SHARDING.get(strategy, 3), f"{fsdp}sharding_strategy")
    if "HYBRID" in strategy:
        size = fields.whole(f"{fsdp}data_parallel_shard_degree", least=1)
        draft.put("hsdp_shard", size, f"{fsdp}data_parallel_shard_degree")
        if size is None:
            fields.leave(f"{fsdp}sharding_strategy", "how many ranks share: give --hsdp-shard")
    mixed = fields.take(f"{fsdp}mixed_precision")
    if str(mixed).upper() == "PURE" and precision.startswith("amp_"):
        narrow = "fp16" if precision == "amp_fp16" else "bf16"
        draft.put("reduction_dtype", narrow, f"{fsdp}mixed_precision")
    if fields.flag(f"{fsdp}activation_checkpointing"):
        draft.put("recompute", "full", f"{fsdp}activation_checkpointing")
    draft.flag("offload_activations", f"{fsdp}activation_cpu_offload")
    draft.flag("offload_parameters", f"{fsdp}cpu_offload")


def _read_model(document: Document, draft: Draft, at: str) -> None:
    fields, here = draft.fields, f"{at}model."
    name = fields.word(f"{here}name") or ""
    if name in ("hf_t5", "hf_prefix_lm"):
        raise not_a_launch(
            document, f"{name} trains an encoder and a decoder, whose runs are not modelled"
        )
    if name == "mpt_causal_lm":
        _read_mpt(draft, here)
        return
    draft.model = fields.word(f"{here}pretrained_model_name_or_path")
    kernel = fields.word(
        f"{here}attn_implementation", f"{here}config_overrides.attn_config.attn_impl"
    )
    fields.flag(f"{here}use_flash_attention_2")
    draft.put("attention", "eager" if kernel in ("eager", "torch") else "flash")
    fields.ignore(
        f"{here}config_overrides", f"{here}config_overrides.max_*", f"{here}config_overrides.attn_*"
    )
    read_peft(draft, f"{here}peft_config")


def _read_mpt(draft: Draft, here: str) -> None:
    """MPT as its class composes it; absent keys mean that class's defaults."""
    fields, attn = draft.fields, f"{here}attn_config."
    hidden = fields.whole(f"{here}d_model", least=1)
    sizes = {
        "hidden_size": hidden,
        "num_layers": fields.whole(f"{here}n_layers", least=1),
        "num_attention_heads": fields.whole(f"{here}n_heads", least=1),
        "vocab_size": fields.whole(f"{here}vocab_size", least=1),
    }
    if not all(sizes.values()):
        draft.lack("model")
        return
    kind = fields.word(f"{attn}attn_type")
    groups = fields.whole(f"{attn}kv_n_heads", least=1)
    bias = not (fields.flag(f"{here}no_bias") or False)
    blocks = (f"{here}ffn_config.{name}" for name in ("ffn_type", "mlp_type"))
    gated = any("glu" in (fields.word(block) or "") for block in blocks)
    ratio = fields.number(f"{here}expansion_ratio") or 4
    wide = fields.whole(f"{here}ffn_config.ffn_hidden_size", least=1)
    wide = wide or int(ratio * (hidden or 1))
    rotary, alibi = fields.flag(f"{attn}rope"), fields.flag(f"{attn}alibi")
    learnt = fields.flag(f"{here}learned_pos_emb") is not False and not (rotary or alibi)
    kernel = fields.word(f"{attn}attn_impl")
    draft.put("attention", "eager" if kernel == "torch" else "flash", f"{attn}attn_impl")
    tied = fields.flag(f"{here}tie_word_embeddings")
    longest = fields.whole(f"{here}max_seq_len") or draft.plan.get("seq")
    fields.use(f"{here}max_seq_len")
    config = from_fields(
        **sizes,
        num_query_groups=1 if kind == "multiquery_attention" else groups,
        ffn_hidden_size=wide,
        **_experts(fields, f"{here}ffn_config.", wide),
        gated_linear_unit=gated,
        activation_func="silu" if gated else "gelu",
        normalization="RMSNorm"
        if "rms" in (fields.word(f"{here}norm_type") or "")
        else "LayerNorm",
        add_bias_linear=bias,
        norm_bias=bias,
        qk_layernorm=fields.flag(f"{attn}qk_ln"),
        position_embedding_type="learned_absolute" if learnt else "rope" if rotary else "none",
        max_position_embeddings=longest,
        share_embeddings_and_output_weights=tied is not False,
        hidden_dropout=fields.number(f"{here}resid_pdrop") or 0.0,
        attention_dropout=fields.number(f"{attn}attn_pdrop") or 0.0,
        window_size=_window(fields.whole(f"{attn}sliding_window_size", least=-1)),
    )
    draft.architecture = read_config(config, name="mpt", source="a launch file")


def _experts(fields: Fields, path: str, width: int) -> dict[str, object]:
    """MegaBlocks' experts, each as wide as the block in whose place they stand."""
    experts = fields.whole(f"{path}moe_num_experts", least=1)
    kind = fields.word(f"{path}ffn_type") or ""
    if kind not in ("mb_moe", "mb_dmoe", "torch_dmoe"):
        return {}
    fields.ignore(*(f"{path}{name}" for name in _EXPERT_IGNORED))
    return {
        "num_moe_experts": experts or 1,
        "moe_router_topk": fields.whole(f"{path}moe_top_k", least=1) or 1,
        "moe_ffn_hidden_size": width,
    }


def _window(size: int | None) -> int | None:
    return size if size is not None and size > 0 else None
