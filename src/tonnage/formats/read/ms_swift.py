"""ms-swift's YAML or JSON: its own trainer, and Megatron behind the same names.

Source: ms-swift 4, ``arguments``, ``trainers/arguments.py`` and ``megatron/arguments``, and the
names of versions 1 to 3 (``sft_type``, ``train_type``).
"""

from __future__ import annotations

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.model import (
    ROLLOUTS,
    adapter_plan,
    four_bits,
    note_checkpoint,
    preference,
    prequantised,
    read_attention,
    read_stored,
    refuse_dora,
    refuse_method,
    switched,
)
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.trainer import NESTED, OPTIMIZER, read_arguments
from tonnage.formats.keys import Fields
from tonnage.formats.options import options
from tonnage.formats.read.ms_swift_megatron import is_megatron, read_megatron

KIND = "ms-swift"

USUAL = Run(
    mixed="bf16",
    loaded="bf16",
    samples=1,
    batch_at_least=16,
    recompute=True,
    optimizer=OPTIMIZER,
)
"""ms-swift's defaults: the checkpoint's format, taken to be bf16, and steps of 16 samples."""

_MARKS = (
    *("train_type", "tuner_type", "sft_type", "rlhf_type", "model_type", "target_modules"),
    *("model_id_or_path", "split_dataset_ratio", "train_dataset_sample", "dataset_num_proc"),
    *("custom_register_path", "loss_scale", "vit_gradient_checkpointing", "quant_bits"),
)

_LEFT = {
    "sequence_parallel_size": "sequences split over ranks (Ulysses) are not modelled",
    "use_galore": "its low-rank states are weighed as whole ones: an upper bound",
    "lisa_activated_layers": "weighed as if every weight trains: an upper bound",
    "freeze_parameters": "weighed as if every weight trains: an upper bound",
    "freeze_parameters_ratio": "weighed as if every weight trains: an upper bound",
    "freeze_llm": "weighed as if every weight trains: an upper bound",
    "padding_free": "weighed with padding to the length of a sequence",
    "target_regex": "weighed with adapters on all linear layers",
    "target_parameters": "adapters on bare parameters are left out",
    "use_logits_to_keep": "weighed with logits of every token",
    "deepspeed_autotp_size": "tensor parallelism inside DeepSpeed is not modelled",
    "zero_hpz_partition_size": "secondary shards of ZeRO++ are not modelled",
    "use_unsloth": "weighed as PEFT's modules",
}
_NESTED = (
    *(
        "trainer",
        "model_kwargs.*",
        "columns.*",
        "rollout.*",
        "teacher.*",
        "max_memory.*",
        "train.output_dir",
    ),
    *("teacher_deepspeed.*", "device_map.*", "rope_scaling.*", "eval_generation_config.*"),
)


def detect(document: Document) -> bool:
    """Whether ms-swift's own names are there."""
    if document.any("base_model", "finetuning_type"):
        return False
    return document.any(*_MARKS) and document.any(
        *("model", "model_type", "model_id_or_path", "dataset", "train_type", "tuner_type"),
    )


def parts(document: Document) -> tuple[Part, ...]:
    """The run, and the DeepSpeed configuration that it names.

    Raises:
        NotModelledError: a method that generates, distils or trains a reward model.
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    method = _method(fields)
    if is_megatron(fields):
        run, usual = read_megatron(fields, _adapters(fields)), Run(mixed="bf16")
        fields.ignore(*options(KIND, "transformers"), *NESTED, *_NESTED)
        return (part(KIND, document, fields, run, usual),)
    beside = referred(document, fields, "deepspeed")
    run, _ = overlay(_arguments(fields), _own(fields))
    if method:
        held = method in ("dpo", "kto")
        run, _ = overlay(run, preference(fields, "rlhf_type", method, reference=held))
    refuse_dora(fields, "use_dora")
    for path, why in _LEFT.items():
        off = fields.peek(path) in (None, False, 0, 1, "", 1.0) and fields.peek(path) is not True
        fields.ignore(path) if off else fields.leave(path, why)
    fields.ignore(*options(KIND, "transformers"), *NESTED, *_NESTED)
    return (*beside, part(KIND, document, fields, run, USUAL))


def _arguments(fields: Fields) -> Run:
    """The Trainer's arguments; ``fsdp: fsdp2`` is a file that ms-swift brings."""
    if fields.peek("fsdp") != "fsdp2":
        return read_arguments(fields)
    fields.use("fsdp")
    fields.leaves["fsdp"] = None
    run = read_arguments(fields)
    fields.leaves["fsdp"] = "fsdp2"
    return run.filled(engine="fsdp2", recompute=True, reentrant=False)


def _method(fields: Fields) -> str:
    """The preference method; empty for supervised training."""
    method = (fields.word("rlhf_type") or "").lower()
    if method in ROLLOUTS or method in ("rm", "reward"):
        refuse_method("rlhf_type", method)
    task = (fields.word("task_type") or "causal_lm").lower()
    if task != "causal_lm":
        refuse_method("task_type", task)
    return method


def _own(fields: Fields) -> Run:
    """ms-swift's own names."""
    plan = read_attention(fields, "attn_impl")
    if fields.flag("use_flash_attn"):
        plan.setdefault("attention_version", 2)
    plan |= switched(fields, packing="packing")
    plan |= _adapters(fields)
    loaded = read_stored(fields, "torch_dtype", "dtype")
    mixed = {"fp16": "fp16", "fp32": "fp16", "bf16": "bf16"}.get(str(loaded))
    samples = fields.whole("batch_size", least=1)
    return Run(
        model=fields.word("model", "model_id_or_path", "ckpt_dir"),
        loaded=loaded,
        mixed=None if fields.has("bf16", "fp16") else mixed,  # type: ignore[arg-type]
        samples=samples,
        seq=fields.whole("max_length", "max_seq_length", least=1),
        plan=plan,
    )


def _adapters(fields: Fields) -> dict[str, object]:
    """Adapters by the type of tuning; LoRA where none is named."""
    names = ("tuner_type", "train_type", "sft_type", "train.tuner_type")
    kind = (fields.word(*names) or ("full" if is_megatron(fields) else "lora")).lower()
    if kind == "full":
        return {}
    if kind not in ("lora", "longlora"):
        path = next((name for name in names if fields.has(name)), names[0])
        fields.leave(path, "weighed as LoRA of the same rank")
    name = fields.peek("model", "model_id_or_path")
    note_checkpoint(fields, str(name))
    return adapter_plan(
        fields,
        rank=fields.whole("lora_rank", "train.lora_rank", least=1) or 8,
        targets=[_target(word) for word in _targets(fields)],
        target_path="target_modules",
        dropout=_dropout(fields),
        saved=fields.words("modules_to_save", "lora_modules_to_save"),
        saved_path="modules_to_save",
        base=_base(fields) or prequantised(str(name)),
    )


def _targets(fields: Fields) -> tuple[str, ...]:
    return fields.words("target_modules", "lora_target_modules") or ("all-linear",)


def _target(word: str) -> str:
    return "all" if word.upper() in ("ALL", "ALL-LINEAR", "DEFAULT", "AUTO") else word


def _dropout(fields: Fields) -> float:
    given = fields.number("lora_dropout", "lora_dropout_p")
    return 0.05 if given is None else given


def _base(fields: Fields) -> str | None:
    bits = fields.whole("quant_bits", "quantization_bit") or None
    method = (fields.word("quant_method") or "bnb").lower()
    nested = fields.flag("bnb_4bit_use_double_quant")
    if bits is None:
        return None
    if method not in ("bnb", "fp8"):
        fields.leave("quant_method", "weighed as bitsandbytes' format of as many bits")
    return four_bits(nested=nested is not False) if bits == 4 else "int8"
