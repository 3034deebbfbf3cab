"""A DeepSpeed configuration: JSON of its own, or inside another file.

Sources: DeepSpeed's documentation of its configuration JSON
(https://www.deepspeed.ai/docs/config-json/) and ``runtime/zero/config.py``; ``"auto"`` is
Hugging Face's: the Trainer fills it in from its own arguments.
"""

from __future__ import annotations

from tonnage.formats.hugging_face.run import Mixed, Run
from tonnage.formats.keys import Fields

_GRADIENT_BYTES = 2
"""Gradients in a reduction bucket are in the 16-bit format of the weights."""

IRRELEVANT = (
    *("gradient_clipping", "steps_per_print", "wall_clock_breakdown", "dump_state", "seed"),
    *("zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "prescale_gradients"),
    *("gradient_predivide_factor", "sparse_gradients", "memory_breakdown", "scheduler*"),
    *("optimizer.params.*", "optimizer.legacy_fusion", "fp16.*", "bf16.*", "bfloat16.*"),
    *("flops_profiler*", "tensorboard*", "wandb*", "csv_monitor*", "comet*", "monitor_config*"),
    *("comms_logger*", "comms_config*", "aio*", "checkpoint*", "autotuning*", "elasticity*"),
    *("dataloader_drop_last", "communication_data_type", "disable_allgather", "timers*"),
    *("data_efficiency*", "curriculum_learning*", "nebula*", "hybrid_engine*", "vocabulary_size"),
    *("activation_checkpointing*", "disable_python_gc", "gradient_allreduce_op", "mpu*"),
    *("managed_gradient_accumulation", "train_data*", "weight_quantization*", "use_data_before*"),
    *("seq_parallel_communication_data_type", "zero_optimization._*", "_*", "data_types.*"),
)
"""Nothing that is modelled depends on these."""

_ZERO_IRRELEVANT = (
    *("allgather_partitions", "allgather_bucket_size", "reduce_scatter", "overlap_comm"),
    *("contiguous_gradients", "round_robin_gradients", "sub_group_size", "prefetch_bucket_size"),
    *("stage3_prefetch_bucket_size", "param_persistence_threshold", "offload_*"),
    *("stage3_param_persistence_threshold", "model_persistence_threshold", "max_reuse_distance"),
    *("stage3_model_persistence_threshold", "stage3_max_reuse_distance", "elastic_checkpoint"),
    *("gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
    *("stage3_gather_fp16_weights_on_model_save", "ignore_unused_parameters", "legacy_stage1"),
    *("load_from_fp32_weights", "memory_efficient_linear", "pipeline_loading_checkpoint"),
    *("override_module_apply", "use_multi_rank_bucket_allreduce", "cpu_offload_use_pin_memory"),
    *("parameter_alignment", "compute_grad_norm", "log_trace_cache_warnings", "leaf_module*"),
    *("enable_sanity_checks", "module_granularity_threshold", "allgather_sequential"),
    *("stage3_module_granularity_threshold", "use_all_reduce_for_fetch_params"),
    *("stage3_use_all_reduce_for_fetch_params", "find_unused_parameters", "load_from_fp32"),
)

_NOT_MODELLED = {
    "zero_optimization.zero_hpz_partition_size": "secondary shards of ZeRO++ are not modelled",
    "zero_optimization.zero_quantized_weights": "ZeRO++'s quantised gathers are not modelled",
    "zero_optimization.zero_quantized_gradients": "ZeRO++'s quantised reductions are not modelled",
    "zero_optimization.zero_quantized_nontrainable_weights": "not modelled",
    "zero_optimization.mics_shard_size": "MiCS is not modelled: sharded over every device",
    "zero_optimization.zenflow": "ZenFlow is not modelled",
    "tensor_parallel.autotp_size": "tensor parallelism inside DeepSpeed is not modelled",
    "sequence_parallel_size": "Ulysses inside DeepSpeed is not modelled",
    "amp.enabled": "NVIDIA apex is not modelled",
    "msamp.enabled": "MS-AMP is not modelled",
    "torch_autocast.enabled": "autocast inside DeepSpeed is not modelled",
    "compile.deepcompile": "DeepCompile is not modelled",
}


def read_deepspeed(fields: Fields) -> Run:
    """What a DeepSpeed configuration says.

    Raises:
        InputError: a key has no value of its type.
    """
    zero = _stage(fields)
    plan: dict[str, object] = {"zero": zero}
    by_width = _by_width(fields, zero)
    habits = _buffers(fields, zero)
    if by_width is not None:
        habits.pop("bucket_bytes", None)
    plan.update(_offload(fields))
    for role, path in (
        ("reduction_dtype", "communication_data_type"),
        ("gradients_dtype", "data_types.grad_accum_dtype"),
    ):
        word = _unless_auto(fields, path)
        if word is not None:
            plan[role] = _FORMATS.get(word.lower(), word)
    if _switch(fields, "bf16.bf16_master_weights_and_grads"):
        plan.update(master_dtype="none", gradients_dtype="bf16")
        if _switch(fields, "bf16.bf16_optimizer_states"):
            plan["moments_dtype"] = "bf16"
    if fields.has("compile.disable", "compile.backend", "compile.enabled"):
        fields.use("compile.*")
        plan["compile"] = not fields.flag("compile.disable")
    for path, why in _NOT_MODELLED.items():
        _refuse_if_on(fields, path, why)
    run = Run(
        engine="deepspeed",
        mixed=_mixed(fields),
        optimizer=_optimizer(fields),
        samples=_count(fields, "train_micro_batch_size_per_gpu"),
        grad_acc=_count(fields, "gradient_accumulation_steps"),
        batch=_count(fields, "train_batch_size"),
        bucket_by_width=by_width,
        plan=plan,
        habits=habits,
    )
    fields.ignore(*IRRELEVANT, *(f"zero_optimization.{name}" for name in _ZERO_IRRELEVANT))
    return run


_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def _stage(fields: Fields) -> int:
    old = fields.peek("zero_optimization")
    if isinstance(old, bool):  # before ZeRO had stages
        fields.use("zero_optimization")
        return int(old)
    stage = fields.whole("zero_optimization.stage")
    if stage is not None and stage > 3:
        fields.fail("zero_optimization.stage", stage, "0, 1, 2 or 3")
    return stage or 0


def _buffers(fields: Fields, zero: int) -> dict[str, str]:
    """The reduction bucket (two with ``overlap_comm``) and what stage 3 lets live."""
    habits: dict[str, str] = {}
    prefix = "zero_optimization."
    bucket = _count(fields, f"{prefix}reduce_bucket_size")
    count = _buckets(fields, zero)
    if zero and (bucket is not None or fields.has(f"{prefix}overlap_comm")):
        elements = _DEFAULT_BUCKET if bucket is None else bucket
        habits["bucket_bytes"] = str(elements * _GRADIENT_BYTES * count)
    if zero == 0 and fields.has(f"{prefix}reduce_bucket_size"):
        fields.ignore(f"{prefix}reduce_bucket_size")
    live = _count(fields, f"{prefix}stage3_max_live_parameters", f"{prefix}max_live_parameters")
    if live is not None and zero == 3:
        habits["live_parameters"] = str(live)
    return habits


def _buckets(fields: Fields, zero: int) -> int:
    """Buckets that are held: two where one fills while the other is reduced."""
    overlap = _switch(fields, "zero_optimization.overlap_comm")
    contiguous = _switch(fields, "zero_optimization.contiguous_gradients")
    return 2 if overlap and contiguous is not False and zero < 3 else 1


def _by_width(fields: Fields, zero: int) -> int | None:
    """An ``"auto"`` bucket has the square of the hidden size in elements.

    Source: transformers, ``integrations/deepspeed.py`` (``trainer_config_finalize``).
    """
    prefix = "zero_optimization."
    if not zero or fields.peek(f"{prefix}reduce_bucket_size") != "auto":
        return None
    return _GRADIENT_BYTES * _buckets(fields, zero)


_DEFAULT_BUCKET = 500_000_000
"""Elements of ``reduce_bucket_size`` where it is not given."""


def _offload(fields: Fields) -> dict[str, object]:
    """What is held on the host, or on NVMe behind it."""
    plan: dict[str, object] = {}
    for field, on, path in (
        ("offload_optimizer", 1.0, "zero_optimization.offload_optimizer.device"),
        ("offload_optimizer", 1.0, "zero_optimization.cpu_offload"),
        ("offload_parameters", True, "zero_optimization.offload_param.device"),
        ("offload_parameters", True, "zero_optimization.cpu_offload_params"),
        ("offload_parameters", True, "zero_optimization.cpu_offload_param"),
    ):
        if is_offloaded(fields, path):
            plan[field] = on
            fields.says(field, path)
    return plan


def is_offloaded(fields: Fields, path: str) -> bool:
    """Whether a key names a place other than the device."""
    return (fields.word(path) or "none").lower() not in ("none", "false", "auto")


def _mixed(fields: Fields) -> Mixed | None:
    """The format that is switched on; None where the Trainer decides."""
    bf16 = _switch(fields, "bf16.enabled", "bfloat16.enabled")
    fp16 = _switch(fields, "fp16.enabled")
    if bf16 or fp16:
        return "bf16" if bf16 else "fp16"
    paths = ("bf16.enabled", "bfloat16.enabled", "fp16.enabled")
    values = [fields.peek(path) for path in paths]
    silent = all(value is None for value in values)
    return None if silent or "auto" in values else "no"


def _optimizer(fields: Fields) -> str | None:
    name = fields.word("optimizer.type")
    return None if name is None or name == "auto" else name


def _count(fields: Fields, *paths: str) -> int | None:
    """A number; None where it is absent or ``"auto"``."""
    if any(fields.peek(path) == "auto" for path in paths):
        fields.use(*paths)
        return None
    return fields.whole(*paths)


def _switch(fields: Fields, *paths: str) -> bool | None:
    """True or false; None where it is absent or ``"auto"``."""
    if fields.peek(*paths) == "auto":
        fields.use(*paths)
        return None
    return fields.flag(*paths)


def _unless_auto(fields: Fields, path: str) -> str | None:
    word = fields.word(path)
    return None if word in (None, "auto") else word


def _refuse_if_on(fields: Fields, path: str, why: str) -> None:
    """Whatever is off changes nothing; whatever is on is not understood, by name."""
    value = fields.peek(path)
    if value in (None, False, 0, 1, -1, "auto", "false") and value is not True:
        fields.ignore(path)
    else:
        fields.leave(path, why)
    for other in fields.under(path):
        if other != path:
            fields.leave(other, why)
