"""nanotron: its YAML (https://github.com/huggingface/nanotron, ``nanotron/config``).

The model's keys are those of config.json with a mark (``is_llama_config``) for its class.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.arch import read_config
from tonnage.errors import NotModelledError
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.read.nanotron_mamba import mamba_config

_MODEL = "model.model_config"
_IGNORED = (
    "checkpoints.*",
    "checkpoints",
    "data_stages*",
    "data",
    "data.*",
    "doremi.*",
    "general.*",
    "lighteval*",
    "logging.*",
    "metrics_logging*",
    "profiler*",
    "s3_upload*",
    "tokenizer.*",
    "optimizer.adam_*",
    "optimizer.clip_grad",
    "optimizer.learning_rate_scheduler.*",
    "optimizer.optimizer_factory.adam_*",
    "optimizer.optimizer_factory.*muon*",
    "optimizer.weight_decay*",
    "model.ddp_bucket_cap_mb",
    "model.init_method.*",
    "mup.*",
    "slurm*",
    "tokens.limit_*",
    "tokens.val_check_interval",
    "parallelism.tp_recompute_allgather",
    "model.model_config.moe_config",
)
_IGNORED_MODEL = (
    *("_attn_implementation", "_fused_r*", "_use_*", "bos_token_id", "eos_token_id"),
    *("pad_token_id", "initializer_range", "pretraining_tp", "use_cache", "rms_norm_eps"),
    *("rope_*", "z_loss_*", "interleaved_rotary", "flex_attention_mask", "is_mamba_config"),
    *("layer_norm_epsilon", "attention_softmax_in_fp32", "scale_*", "no_rope_layer", "ring_*"),
    *("use_position_embeddings", "use_rotary_embeddings", "llama3_ring*", "attn_temp*"),
)
_READ_MODEL = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size", "tie_word_embeddings", "max_position_embeddings"),
    *("attention_bias", "hidden_act", "head_dim", "sliding_window"),
)
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def detect(document: Document) -> bool:
    """Whether the content is nanotron's."""
    return document.has("parallelism.dp", "tokens") or document.has(
        _MODEL, "tokens.micro_batch_size"
    )


def read(document: Document) -> Launch:
    """Read a nanotron file.

    Raises:
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    draft = Draft("nanotron", fields, "nanotron")
    _read_parallelism(draft)
    _read_tokens(draft)
    _read_optimizer(draft)
    _read_model(draft)
    fields.ignore(*_IGNORED, *(f"{_MODEL}.{name}" for name in _IGNORED_MODEL))
    return draft.finish()


def _read_parallelism(draft: Draft) -> None:
    fields = draft.fields
    ranks = 1
    for field, *names in (
        ("tp", "tp"),
        ("pp", "pp"),
        ("cp", "context_parallel_size"),
    ):
        ranks *= draft.whole(field, *(f"parallelism.{name}" for name in names)) or 1
    draft.whole("ep", "parallelism.expert_parallel_size")
    whole = fields.whole("parallelism.dp", least=1)
    if whole is not None:
        draft.gpus = whole * ranks
    engine = (fields.word("parallelism.pp_engine") or "afab").lower()
    if draft.plan.get("pp", 1) > 1:
        draft.put("schedule", {"afab": "gpipe"}.get(engine, engine), "parallelism.pp_engine")
    mode = (fields.word("parallelism.tp_mode") or "ALL_REDUCE").upper()
    draft.put("sp", mode == "REDUCE_SCATTER", "parallelism.tp_mode")
    beside = fields.flag("parallelism.tp_linear_async_communication")
    if mode == "REDUCE_SCATTER" and draft.plan.get("tp", 1) > 1 and not beside:
        draft.habit("tp_async", False)
    if fields.flag("parallelism.recompute_layer"):
        draft.put("recompute", "full", "parallelism.recompute_layer")
    if fields.flag("parallelism.moe_layer_recompute"):
        draft.put("recompute", "selective", "parallelism.moe_layer_recompute")
        draft.put("recompute_modules", ("moe",), "parallelism.moe_layer_recompute")


def _read_tokens(draft: Draft) -> None:
    for field, name in (("mbs", "micro_batch_size"), ("seq", "sequence_length")):
        if draft.whole(field, f"tokens.{name}") is None:
            draft.lack(field)
    if draft.whole("grad_acc", "tokens.batch_accumulation_per_replica") is None:
        draft.lack("gbs")
    draft.steps = draft.fields.whole("tokens.train_steps", least=1)


def _read_optimizer(draft: Draft) -> None:
    """With fp32 accumulation there is a second gradient buffer beside the bf16 gradients."""
    fields = draft.fields
    draft.put("zero", fields.whole("optimizer.zero_stage") or 0, "optimizer.zero_stage")
    accumulates = fields.flag("optimizer.accumulate_grad_in_fp32")
    narrow = _DTYPES.get(fields.word("model.dtype") or "bfloat16", "bf16")
    recipe = "bf16-mixed-accumulate" if accumulates is not False else "bf16"
    if narrow == "fp32":
        recipe = "fp32"
    elif narrow == "fp16":
        recipe = "fp16-mixed"
    draft.put("precision", recipe, "model.dtype", "optimizer.accumulate_grad_in_fp32")
    name = (fields.word("optimizer.optimizer_factory.name") or "adamW").lower()
    draft.put("optimizer", name, "optimizer.optimizer_factory.name")
    fused = fields.flag(
        "optimizer.optimizer_factory.torch_adam_is_fused", "optimizer.torch_adam_is_fused"
    )
    if fused is False:
        draft.put("optimizer_step", "foreach", "optimizer.torch_adam_is_fused")


def _read_model(draft: Draft) -> None:
    fields = draft.fields
    multiple = fields.whole("model.make_vocab_size_divisible_by", least=1)
    if multiple is not None:
        draft.habit("vocab_multiple", multiple)
    fields.use(*(f"{_MODEL}.{name}" for name in ("is_*_config", *_READ_MODEL)))
    config = mamba_config(fields, _MODEL) if fields.has(f"{_MODEL}.ssm_cfg.d_state") else None
    config = config or _config(draft)
    if not config.get("hidden_size"):
        draft.lack("model")
        return
    try:
        draft.architecture = read_config(config, name="nanotron", source="a launch file")
    except NotModelledError as error:
        draft.no_model(f"its model is not modelled: {error.message}")


def _config(draft: Draft) -> dict[str, object]:
    """A config.json of the nearest family: Llama, Qwen2, Qwen2-MoE or StarCoder2."""
    fields = draft.fields
    prefix = f"{_MODEL}."
    given = {
        path.removeprefix(prefix): value
        for path, value in fields.leaves.items()
        if path.startswith(prefix) and value is not None
    }
    if given.get("num_key_value_heads") is None and "num_attention_heads" in given:
        given["num_key_value_heads"] = given["num_attention_heads"]
    window = fields.whole(f"{prefix}sliding_window_size")
    flat = {name: value for name, value in given.items() if "." not in name}
    if given.get("is_starcoder2_config"):
        return _starcoder(draft, flat, window)
    if any(name.startswith("moe_config.") for name in given) or "moe_num_experts" in flat:
        return _mixture(draft, flat)
    if given.get("is_qwen2_config"):
        # Its biases follow attention_bias, where those of the class on the hub are fixed.
        if given.get("attention_bias") is False and window is None:
            return {**flat, "model_type": "llama"}
        if window is not None and given.get("attention_bias") is False:
            return {**flat, "model_type": "mistral", "sliding_window": window}
        return {**flat, "model_type": "qwen2"}
    return {**flat, "model_type": "llama"}


def _starcoder(draft: Draft, flat: Mapping[str, object], window: int | None) -> dict[str, object]:
    fields = draft.fields
    names = ("grouped_query", "multi_query", "num_kv_heads", "global_attn_layers")
    fields.use(*(f"{_MODEL}.{name}" for name in names))
    heads = flat.get("num_attention_heads")
    groups = flat.get("num_kv_heads") if flat.get("grouped_query") else None
    return {
        **flat,
        "model_type": "starcoder2",
        "sliding_window": window,
        "num_key_value_heads": groups or (1 if flat.get("multi_query") else heads),
        "hidden_act": fields.word(f"{_MODEL}.activation_function") or "gelu_pytorch_tanh",
        "residual_dropout": fields.number(f"{_MODEL}.resid_pdrop") or 0.0,
        "embedding_dropout": fields.number(f"{_MODEL}.embd_pdrop") or 0.0,
        "attention_dropout": fields.number(f"{_MODEL}.attn_pdrop") or 0.0,
        "intermediate_size": flat.get("intermediate_size") or 4 * int(str(flat["hidden_size"])),
    }


def _mixture(draft: Draft, flat: Mapping[str, object]) -> dict[str, object]:
    """Qwen's mixture; nanotron's experts are as wide as the dense block unless told."""
    fields = draft.fields
    path = f"{_MODEL}.moe_config."
    width = fields.whole(f"{path}moe_intermediate_size") or flat.get("intermediate_size")
    shared = fields.flag(f"{path}enable_shared_expert")
    shared_width = fields.whole(f"{path}shared_expert_intermediate_size")
    experts = fields.whole(f"{path}num_experts", f"{_MODEL}.moe_num_experts", least=1)
    top_k = fields.whole(f"{path}top_k", f"{_MODEL}.num_experts_per_tok", least=1)
    capacity = fields.number(f"{_MODEL}.moe_capacity_factor")
    draft.put("moe_capacity_factor", capacity, f"{_MODEL}.moe_capacity_factor")
    fields.ignore(f"{path}use_torch_permute", f"{path}use_haiku*", f"{path}layers")
    draft.put("moe_dispatcher", fields.word(f"{path}token_dispatcher_type"), path)
    config = {
        **flat,
        "model_type": "megatron",
        "num_layers": flat.get("num_hidden_layers"),
        "num_query_groups": flat.get("num_key_value_heads"),
        "ffn_hidden_size": flat.get("intermediate_size"),
        "num_moe_experts": experts,
        "moe_router_topk": top_k or 1,
        "moe_ffn_hidden_size": width,
        "moe_shared_expert_intermediate_size": (shared_width or width) if shared else None,
        "gated_linear_unit": True,
        "activation_func": "silu",
        "normalization": "RMSNorm",
        "add_bias_linear": False,
        "add_qkv_bias": bool(flat.get("attention_bias")),
        "position_embedding_type": "rope",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "share_embeddings_and_output_weights": bool(flat.get("tie_word_embeddings")),
        "window_size": fields.whole(f"{_MODEL}.sliding_window_size"),
    }
    return {name: value for name, value in config.items() if value is not None}
