"""The arguments of the Hugging Face Trainer, as YAML or JSON, with those of example scripts."""

from __future__ import annotations

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.model import read_model, refuse_dora, switched
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.trainer import NESTED, OPTIMIZER, read_arguments
from tonnage.formats.keys import Fields
from tonnage.formats.options import options

KIND = "transformers"

SEQUENCE = (
    "max_seq_length",
    "max_seq_len",
    "block_size",
    "model_max_length",
    "max_length",
    "cutoff_len",
)
"""Names that scripts give to the length of a sequence."""

USUAL = Run(mixed="no", samples=8, grad_acc=1, optimizer=OPTIMIZER)
"""The Trainer's defaults where a plan has none of its own; weights as the checkpoint has them."""

_MARKS = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"),
    *("num_train_epochs", "lr_scheduler_type", "logging_steps", "save_strategy", "eval_strategy"),
    *("report_to", "optim", "warmup_ratio", "model_name_or_path", "fsdp_config", "save_steps"),
    *("learning_rate", "output_dir", "bf16", "fp16", "per_device_eval_batch_size"),
)

NESTED_SCRIPT = (
    *("peft_config.*", "lora_config.*", "quantization_config.*", "model_init_kwargs.*"),
    *("dataset_kwargs.*", "dataset_mixer.*", "dataset_mixture.*", "dataset_configs.*"),
    *("generation_kwargs.*", "chat_template_kwargs.*", "dataset.*", "data.*", "wandb.*"),
)
"""Mappings inside the arguments of scripts: data, names and scales."""

_SCRIPT = (
    *("lora_alpha", "lora_bias", "lora_r", "lora_rank", "lora_dropout", "lora_target_modules"),
    *("target_modules", "lora_modules_to_save", "modules_to_save", "use_rslora", "load_in_4bit"),
    *("load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type"),
    *("bnb_4bit_use_double_quant", "use_bnb_nested_quant", "dataset", "data_path", "text_column"),
    *(
        "dataset_split",
        "train_split",
        "test_split",
        "num_proc",
        "hf_token",
        "template",
        "wandb_project",
    ),
)
"""What adapters are where there are none, and data of many scripts."""


def detect(document: Document) -> bool:
    """Whether several keys are the Trainer's own."""
    return sum(document.has(mark) for mark in _MARKS) >= 2 or document.has("fsdp", "fsdp_config")


def parts(document: Document) -> tuple[Part, ...]:
    """The arguments, and the DeepSpeed configuration that they name.

    Raises:
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    beside = referred(document, fields, "deepspeed")
    run, _ = overlay(read_arguments(fields), read_model(fields))
    run = run.filled(seq=fields.whole(*SEQUENCE, least=1))
    refuse_dora(fields, "use_dora", "peft_config.use_dora")
    run, _ = overlay(run, Run(plan=switched(fields, packing="packing")))
    fields.ignore(*options(KIND), *NESTED, *NESTED_SCRIPT, *_SCRIPT, "_*")
    alone = sum(document.has(mark) for mark in _MARKS) < 2  # a file of FSDP's settings only
    return (*beside, part(KIND, document, fields, run, Run() if alone else USUAL))
