"""accelerate's configuration: how many processes, which engine, which mixed precision.

Source: accelerate 1.x, ``commands/config/config_args.py`` (``ClusterConfig``) and
``commands/launch.py``, whose flags are the same names.
"""

from __future__ import annotations

from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Engine, Mixed, Run, overlay
from tonnage.formats.hugging_face.sharding import read_fsdp, read_parallelism
from tonnage.formats.hugging_face.zero import is_offloaded
from tonnage.formats.keys import Fields

KIND = "accelerate"

_IRRELEVANT = (
    *("compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank"),
    *("main_*", "rdzv*", "same_network", "tpu_*", "gpu_ids", "mpirun_config*", "command*"),
    *("tpu_vm*", "env*", "dynamo_config*", "fp8_config*", "num_cpu_threads_per_process", "quiet"),
    *("ec2_instance_type", "iam_role_name", "image_uri", "profile", "region", "base_job_name"),
    *("pytorch_version", "transformers_version", "py_version", "sagemaker_*", "additional_args*"),
    *("deepspeed_config.deepspeed_multinode_launcher", "deepspeed_config.deepspeed_hostfile"),
    *("deepspeed_config.zero3_*", "deepspeed_config.gradient_clipping", "max_restarts", "module"),
    *("deepspeed_config.*nvme_path", "deepspeed_config.deepspeed_*clusion_filter", "no_python"),
    *("deepspeed_config.deepspeed_moe_layer_cls_names", "deepspeed_config.*msamp*", "log_dir"),
    *("monitor_interval", "role", "tee", "training_script*", "aws_*", "use_xpu", "use_mps_device"),
)

_DEVICES = (
    *("MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA"),
    *("MULTI_HPU", "MULTI_NEURON"),
)


def detect(document: Document) -> bool:
    """Whether the keys are those of an accelerate configuration."""
    return document.has("distributed_type") or (
        document.has("compute_environment")
        and document.any("num_processes", "num_machines", "mixed_precision")
    )


def parts(document: Document) -> tuple[Part, ...]:
    """The configuration, and the DeepSpeed JSON that it names.

    Raises:
        InputError: it trains on no accelerator, or a key has no value of its type.
    """
    fields = Fields(document.values)
    engine = _engine(document, fields)
    said = Run(
        engine=engine,
        processes=_processes(fields),
        machines=fields.whole("num_machines", least=1),
        mixed=_mixed(fields),
        plan=_compiled(fields),
    )
    beside: tuple[Part, ...] = ()
    if engine == "deepspeed":
        beside = referred(document, fields, "deepspeed_config.deepspeed_config_file")
        said, _ = overlay(said, _deepspeed(fields))
    elif engine == "megatron":
        said, _ = overlay(said, _megatron(fields))
    elif engine == "fsdp1" or (engine is None and fields.under("fsdp_config")):
        said, _ = overlay(said, read_fsdp(fields, "fsdp_config.", version=1))
    if fields.under("parallelism_config"):
        said, _ = overlay(said, read_parallelism(fields, "parallelism_config."))
    fields.ignore(*_IRRELEVANT, *_unused(engine))
    usual = Run(mixed="no", plan={"zero": 2} if engine == "deepspeed" else {})
    usual = usual if engine is not None else usual.filled(engine="none")
    return (part(KIND, document, fields, said, usual), *beside)


def _engine(document: Document, fields: Fields) -> Engine | None:
    """The engine that is named; the options of a launcher may name none."""
    word = (fields.word("distributed_type") or "").upper().removeprefix("DISTRIBUTEDTYPE.")
    if fields.flag("use_cpu") or word == "MULTI_CPU":
        raise not_a_launch(document, "it trains on processors, not on accelerators")
    if word in ("TPU", "XLA"):
        raise not_a_launch(document, "PyTorch/XLA is not modelled")
    engines: dict[str, Engine] = {
        "FSDP": "fsdp1",
        "DEEPSPEED": "deepspeed",
        "MEGATRON_LM": "megatron",
        "FALSE": "none",
        "NO": "none",
        "TP": "fsdp2",
    }
    engines |= dict.fromkeys(_DEVICES, "none")
    if not word:
        return None
    if word not in engines:
        fields.fail("distributed_type", word, ", ".join(engines))
    if word in ("NO", "FALSE"):
        fields.note("distributed_type NO: one process")
    return engines[word]


def _processes(fields: Fields) -> int | None:
    """Processes in all; one where nothing is distributed."""
    if str(fields.peek("num_processes")) in ("-1", "auto"):
        fields.use("num_processes")
        return None
    count = fields.whole("num_processes", least=1)
    alone = str(fields.peek("distributed_type")).upper() in ("NO", "FALSE")
    return count or (1 if alone else None)


def _mixed(fields: Fields) -> Mixed | None:
    word = (fields.word("mixed_precision") or "").lower()
    if fields.flag("fp16"):  # before mixed_precision had its name
        word = "fp16"
    if not word:
        return None
    words: dict[str, Mixed] = {"false": "no", "no": "no", "bf16": "bf16", "fp16": "fp16"}
    words["fp8"] = "fp8"
    if word not in words:
        fields.fail("mixed_precision", word, "no, fp16, bf16 or fp8")
    return words[word]


def _compiled(fields: Fields) -> dict[str, object]:
    backend = fields.word("dynamo_config.dynamo_backend", "dynamo_backend")
    return {"compile": True} if (backend or "no").lower() not in ("no", "false") else {}


def _deepspeed(fields: Fields) -> Run:
    """The keys that stand for a DeepSpeed JSON."""
    stage = fields.whole("deepspeed_config.zero_stage")
    if stage is not None and stage > 3:
        fields.fail("deepspeed_config.zero_stage", stage, "0, 1, 2 or 3")
    plan: dict[str, object] = {} if stage is None else {"zero": stage}
    for field, on, what in (
        ("offload_optimizer", 1.0, "optimizer"),
        ("offload_parameters", True, "param"),
    ):
        path = f"deepspeed_config.offload_{what}_device"
        if is_offloaded(fields, path):
            plan[field] = on
            fields.says(field, path)
    path = "deepspeed_config.gradient_accumulation_steps"
    automatic = fields.peek(path) == "auto"
    if automatic:
        fields.use(path)
    return Run(
        grad_acc=None if automatic else fields.whole(path, least=1),
        plan=plan,
    )


def _megatron(fields: Fields) -> Run:
    """Megatron-LM's degrees."""

    def at(name: str) -> tuple[str, str]:
        return f"megatron_lm_config.megatron_lm_{name}", f"megatron_lm_config.{name}"

    plan: dict[str, object] = {}
    for field, name in (
        ("tp", "tp_degree"),
        ("pp", "pp_degree"),
        ("ep", "expert_model_parallel_size"),
        ("etp", "expert_tensor_parallel_size"),
        ("cp", "context_parallel_size"),
        ("last_stage_layers", "decoder_last_pipeline_num_layers"),
        ("recompute_num_layers", "recompute_num_layers"),
    ):
        number = fields.whole(*at(name), least=1)
        if number is not None:
            plan[field] = number
            fields.says(field, *at(name))
    sequence = fields.flag(*at("sequence_parallelism"))
    if sequence is not None:
        plan["sp"] = sequence
    plan["zero"] = int(bool(fields.flag(*at("use_distributed_optimizer"))))
    granularity = fields.word(*at("recompute_granularity"))
    if granularity or fields.flag(*at("recompute_activations")):
        plan["recompute"] = granularity or "selective"
    method = fields.word(*at("recompute_method"))
    if method:
        plan["recompute_method"] = method
    if fields.flag(*at("optimizer_cpu_offload")):
        plan["offload_optimizer"] = 1.0
        fields.says("offload_optimizer", *at("optimizer_cpu_offload"))
    for name in _MEGATRON_IRRELEVANT:
        fields.ignore(*at(name))
    seq = fields.whole(*at("seq_length"), least=1)
    return Run(grad_acc=fields.whole(*at("num_micro_batches"), least=1), seq=seq, plan=plan)


_MEGATRON_IRRELEVANT = (
    *("gradient_clipping", "no_load_optim", "no_save_optim", "eod_mask_loss", "attention_dropout"),
    *("hidden_dropout", "attention_softmax_in_fp32", "calculate_per_token_loss", "train_*"),
    *("use_rotary_position_embeddings", "attention_backend", "overlap_cpu_optimizer_d2h_h2d"),
    *("weight_decay*", "*_weight_decay", "lr_*", "min_lr", "tensorboard_dir", "eval_*"),
)


def _unused(engine: Engine | None) -> tuple[str, ...]:
    """Sections of engines that this run does not use."""
    sections = {
        "deepspeed": "deepspeed_config",
        "fsdp1": "fsdp_config",
        "megatron": "megatron_lm_config",
    }
    return tuple(f"{name}*" for owner, name in sections.items() if owner != engine)
