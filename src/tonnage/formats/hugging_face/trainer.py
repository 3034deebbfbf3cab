"""The Trainer's arguments, which TRL, LLaMA-Factory and ms-swift extend and axolotl renames.

Source: transformers 5, ``TrainingArguments`` and ``Seq2SeqTrainingArguments``, and the names
that earlier versions gave to the same things.
"""

from __future__ import annotations

import json

from tonnage.errors import InputError
from tonnage.files import parse_json
from tonnage.formats.hugging_face.run import Mixed, Run, overlay
from tonnage.formats.hugging_face.sharding import (
    of_options,
    read_fsdp,
    read_options,
    read_parallelism,
)
from tonnage.formats.keys import Fields

NESTED = (
    *("lr_scheduler_kwargs.*", "optim_args.*", "liger_kernel_config.*", "accelerator_config.*"),
    *("gradient_checkpointing_kwargs.*", "activation_checkpointing_kwargs.*", "deepspeed.*"),
    *("torch_compile_options.*", "optim_target_modules.*", "ddp_timeout.*", "label_names.*"),
)
"""Mappings inside the Trainer's arguments that nothing modelled depends on."""


OPTIMIZER = "adamw_torch_fused"
"""The Trainer's optimizer where none is named, since transformers 5 with PyTorch 2.8."""


def read_arguments(fields: Fields) -> Run:
    """What the Trainer's arguments say.

    Raises:
        InputError: a key has no value of its type.
    """
    checkpointing = _checkpointing(fields)
    reentrant = _reentrant(fields)
    if fields.flag("use_cpu", "no_cuda"):
        raise InputError(field="config.use_cpu", value=True, problem="trains on no accelerator")
    steps = fields.peek("max_steps")
    run = Run(
        mixed=read_mixed(fields),
        tf32=_flag(fields, "tf32"),
        optimizer="adafactor" if fields.flag("adafactor") else fields.word("optim"),
        recompute=checkpointing,
        reentrant=reentrant,
        sync_each_batch=fields.flag(
            "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"
        ),
        samples=fields.whole("per_device_train_batch_size", "per_gpu_train_batch_size", least=1),
        grad_acc=fields.whole("gradient_accumulation_steps", least=1),
        steps=fields.whole("max_steps") if _is_positive(steps) else None,
        plan={"compile": True} if fields.flag("torch_compile") else {},
        habits=liger(fields, "use_liger_kernel", "enable_liger_kernel"),
    )
    if steps is not None and not _is_positive(steps):
        fields.ignore("max_steps")
    run, _ = overlay(run, _sharding(fields))
    if fields.under("parallelism_config"):
        run, _ = overlay(run, read_parallelism(fields, "parallelism_config."))
    return run


def _checkpointing(fields: Fields) -> bool | None:
    """True or false; a word that means more (axolotl's ``offload``) is left to its reader."""
    names = ("activation_checkpointing", "gradient_checkpointing")
    if str(fields.peek(*names)).lower() in ("offload", "offload_disk", "unsloth"):
        return None
    return fields.flag(*names)


def _is_positive(value: object) -> bool:
    return value is not None and not str(value).strip().startswith("-") and str(value) != "0"


def _flag(fields: Fields, path: str) -> bool | None:
    """A flag that ``"auto"`` leaves open."""
    if str(fields.peek(path)).lower() == "auto":
        fields.use(path)
        return None
    return fields.flag(path)


def read_mixed(fields: Fields, bf16: str = "bf16", fp16: str = "fp16") -> Mixed | None:
    """Mixed precision by its two switches; None where neither is touched.

    ``auto`` is bf16, which every device that is modelled has.
    """
    wide = fields.peek(bf16)
    if str(wide).lower() == "auto":
        fields.use(bf16)
        fields.flag(fp16)
        return "bf16"
    on16, onb = fields.flag(fp16), fields.flag(bf16)
    if onb or on16:
        return "bf16" if onb else "fp16"
    return None if onb is None and on16 is None else "no"


def _reentrant(fields: Fields) -> bool | None:
    for name in ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"):
        value = fields.peek(name)
        if isinstance(value, str):  # JSON inside a command line
            fields.use(name)
            try:
                inner = parse_json(value)
            except (ValueError, RecursionError):
                fields.fail(name, value, "JSON")
            found = inner.get("use_reentrant") if isinstance(inner, dict) else None
            return found if isinstance(found, bool) else None
        if fields.has(f"{name}.use_reentrant"):
            return fields.flag(f"{name}.use_reentrant")
        fields.ignore(name)
    return None


def liger(fields: Fields, *paths: str) -> dict[str, str]:
    """Liger's kernels: norm and gated activation fused, and a loss without logits.

    Source: Liger-Kernel, ``monkey_patch.py`` (rope, rms_norm, swiglu, fused_linear_cross_entropy).
    """
    if not any(fields.flag(path) for path in paths):
        return {}
    return {"norm": "fused", "activation": "fused", "loss": "linear"}


def _sharding(fields: Fields) -> Run:
    """``fsdp`` and ``fsdp_config``: FSDP 2 where no version is named, since transformers 5."""
    options = read_options(fields, "fsdp")
    old = "fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy"
    version = 1 if fields.has(*old, "fsdp_config.use_orig_params") else 2
    nested = bool(fields.under("fsdp_config"))
    if isinstance(fields.peek("fsdp_config"), str):
        fields.use("fsdp_config")
        fields.note("fsdp_config names another file: give it as a further --config")
        nested = False
    said = read_fsdp(fields, "fsdp_config.", version=version) if nested else Run()
    if not options:
        return Run()
    run, _ = overlay(said, of_options(fields, "fsdp", options))
    return run if run.engine is not None else run.filled(engine="fsdp2")


def inline_json(fields: Fields, path: str) -> dict[str, object] | None:
    """A mapping that is written as JSON inside a text (``--deepspeed '{…}'``).

    Raises:
        InputError: it starts like JSON and is none.
    """
    value = fields.peek(path)
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        found = parse_json(value)
    except (json.JSONDecodeError, ValueError, RecursionError):
        fields.fail(path, value, "JSON, or the name of a file of it")
    fields.use(path)
    return found if isinstance(found, dict) else None
