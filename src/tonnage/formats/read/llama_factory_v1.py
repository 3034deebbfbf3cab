"""The YAML of LLaMA-Factory's second trainer: its own loop over FSDP2, DeepSpeed or replicas.

Source: LLaMA-Factory 0.9.5, ``v1/config``, ``v1/core`` and ``v1/plugins``: weights are loaded and
trained in the checkpoint's format; FSDP2 gathers bf16 and reduces fp32.
"""

from __future__ import annotations

from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.model import (
    adapter_plan,
    four_bits,
    note_checkpoint,
    prequantised,
    read_attention,
    refuse_dora,
)
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Engine, Run
from tonnage.formats.keys import Fields

KIND = "llama-factory"

USUAL = Run(
    mixed="no",
    loaded="bf16",
    samples=1,
    seq=2048,
    optimizer="adamw_torch",
    recompute=True,
    reentrant=False,
)
"""Its defaults; a step is one micro-batch of each replica, and the checkpoint is taken for bf16."""

_SECTIONS = ("dist_config", "peft_config", "quant_config", "kernel_config", "model_class")
_IRRELEVANT = (
    *("output_dir", "learning_rate", "num_train_epochs", "max_steps", "max_grad_norm", "seed"),
    *("batching_workers", "lr_scheduler_config*", "full_determinism", "resume_from_checkpoint"),
    *("save_*", "logging_steps", "template", "trust_remote_code", "model_class", "train_dataset"),
    *("eval_dataset", "init_config*", "kernel_config*", "sample_backend", "max_new_tokens"),
    *("dist_config.name", "dist_config.dcp_path", "dist_config.pin_memory", "dist_config"),
    *("optim_config*", "peft_config*", "quant_config*", "report_to", "run_name"),
)


def detect(document: Document) -> bool:
    """Whether the second trainer's sections stand beside a model."""
    plain = document.has("model") and not document.has("model_name_or_path")
    return plain and document.any(*_SECTIONS) and document.any("template", "peft_config.name")


def parts(document: Document, fields: Fields) -> tuple[Part, ...]:
    """The run, and the DeepSpeed configuration that it names.

    Args:
        document: the file.
        fields: its keys.

    Raises:
        InputError: it does not train, or a key has no value of its type.
    """
    if fields.has("peft_config.export_dir"):
        raise not_a_launch(document, "it merges and exports a model")
    if not fields.has("train_dataset", "micro_batch_size", "learning_rate"):
        raise not_a_launch(document, "it names no training data")
    engine, beside = _engine(document, fields)
    plan = read_attention(fields, "flash_attn") | _sharding(fields, engine) | _adapters(fields)
    batch = fields.whole("global_batch_size", least=1)
    strategy = (fields.word("batching_strategy") or "normal").lower()
    if "padding_free" in strategy:
        plan["packing"] = True
        fields.says("packing", "batching_strategy")
    elif strategy != "normal":
        fields.leave("batching_strategy", "weighed with samples of the full length")
    wide = fields.flag("bf16") is False
    if wide:
        fields.note("bf16 false: weights are weighed in fp32, in which products are made")
    run = Run(
        model=fields.word("model"),
        engine=engine,
        mixed="bf16" if engine == "deepspeed" else None,
        loaded="fp32" if wide else None,
        optimizer=fields.word("optim_config.name"),
        recompute=fields.flag("enable_activation_checkpointing"),
        samples=fields.whole("micro_batch_size", least=1),
        grad_acc=None if batch else 1,
        batch=batch,
        seq=fields.whole("cutoff_len", least=1),
        steps=fields.whole("max_steps", least=1),
        plan=plan,
        habits=_kernels(fields),
    )
    fields.ignore(*_IRRELEVANT)
    return (*beside, part(KIND, document, fields, run, USUAL))


def _engine(document: Document, fields: Fields) -> tuple[Engine | None, tuple[Part, ...]]:
    """What shards; nothing where no distribution is named."""
    name = (fields.word("dist_config.name") or "").lower()
    if name == "deepspeed":
        return "deepspeed", referred(document, fields, "dist_config.config_file")
    if name in ("", "ddp"):
        return None, ()
    if name != "fsdp2":
        fields.fail("dist_config.name", name, "fsdp2, deepspeed or ddp")
    return "fsdp2", ()


def _sharding(fields: Fields, engine: Engine | None) -> dict[str, object]:
    """FSDP2's settings; sequences split over ranks are not modelled."""
    if (fields.whole("dist_config.cp_size", least=1) or 1) > 1:
        why = "sequences split over ranks (Ulysses) are not modelled: each is weighed whole"
        fields.leave("dist_config.cp_size", why)
    fields.word("dist_config.cp_mode")
    if engine != "fsdp2":
        return {}
    whole = fields.flag("dist_config.reshard_after_forward") is False
    plan: dict[str, object] = {"zero": 2 if whole else 3, "reduction_dtype": "fp32"}
    if fields.flag("dist_config.offload_params"):
        plan["offload_parameters"] = True
        fields.says("offload_parameters", "dist_config.offload_params")
    return plan


def _adapters(fields: Fields) -> dict[str, object]:
    """LoRA over a plain or a quantised base; nothing where every weight trains."""
    kind = (fields.word("peft_config.name") or "").lower()
    if kind == "freeze":
        fields.leave("peft_config.name", "weighed as if every weight trains: an upper bound")
    if kind in ("", "freeze"):
        return {}
    if kind != "lora":
        fields.leave("peft_config.name", "weighed as LoRA of the same rank")
    refuse_dora(fields, "peft_config.use_dora")
    name = str(fields.peek("model"))
    note_checkpoint(fields, name)
    dropout = fields.number("peft_config.lora_dropout")
    return adapter_plan(
        fields,
        rank=fields.whole("peft_config.r", least=1) or 8,
        targets=fields.words("peft_config.target_modules") or ("all",),
        target_path="peft_config.target_modules",
        dropout=0.05 if dropout is None else dropout,
        saved=fields.words("peft_config.modules_to_save"),
        saved_path="peft_config.modules_to_save",
        base=_base(fields) or prequantised(name),
    )


def _base(fields: Fields) -> str | None:
    bits = fields.whole("quant_config.quantization_bit", least=1)
    nested = fields.flag("quant_config.double_quantization")
    if bits is None:
        return None
    return four_bits(nested=nested is not False) if bits == 4 else "int8"


def _kernels(fields: Fields) -> dict[str, str]:
    """Liger's kernels where they are named; those that are chosen by the device keep the sizes."""
    if "liger" not in (fields.word("kernel_config.name") or ""):
        return {}
    return {"norm": "fused", "activation": "fused"}
