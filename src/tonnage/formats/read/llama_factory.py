"""LLaMA-Factory's YAML or JSON.

Source: LLaMA-Factory 0.9, ``hparams`` and ``model/adapter.py``: weights are loaded in the format
that is trained in, and those that train are cast to fp32 unless ``pure_bf16``. Its second trainer
has names of its own (`tonnage.formats.read.llama_factory_v1`); its adapter of Megatron-Core takes
Megatron's beside the first's.
"""

from __future__ import annotations

import dataclasses

from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.mcore import read_degrees, read_recompute
from tonnage.formats.hugging_face.model import (
    adapter_plan,
    four_bits,
    note_checkpoint,
    preference,
    prequantised,
    read_attention,
    refuse_dora,
    refuse_method,
    switched,
)
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.trainer import NESTED, OPTIMIZER, liger, read_arguments
from tonnage.formats.keys import Fields
from tonnage.formats.options import options
from tonnage.formats.read import llama_factory_v1 as v1

KIND = "llama-factory"

_LEFT = {
    "use_galore": "its low-rank states are weighed as whole ones: an upper bound",
    "use_apollo": "its low-rank states are weighed as whole ones: an upper bound",
    "use_badam": "weighed as if every weight trains at once: an upper bound",
    "use_adam_mini": "its second moments are weighed as whole ones: an upper bound",
    "use_llama_pro": "weighed as if every weight trains: an upper bound",
    "use_hyper_parallel": "weighed as its own trainer",
    "use_kt": "KTransformers is not modelled: weighed on the device",
    "shift_attn": "weighed as full attention",
    "mixture_of_depths": "weighed with every token in every layer",
    "upcast_layernorm": "norms are weighed in the recipe's format",
    "upcast_lmhead_output": "the head's output is weighed as the loss copies it",
    "resize_vocab": "the vocabulary is weighed as the model has it",
    "freeze_language_model": "weighed as if every weight trains: an upper bound",
}


def detect(document: Document) -> bool:
    """Whether LLaMA-Factory's own keys are there."""
    if document.has("finetuning_type") or document.has("stage", "template"):
        return True
    return document.has("model_name_or_path", "template") or v1.detect(document)


def parts(document: Document) -> tuple[Part, ...]:
    """The run, and the DeepSpeed configuration that it names.

    Raises:
        InputError: it does not train, or a key has no value of its type.
        NotModelledError: a stage that generates or trains a reward model.
    """
    fields = Fields(document.values)
    if v1.detect(document):
        return v1.parts(document, fields)
    _check_trains(document, fields)
    beside = referred(document, fields, "deepspeed")
    method = (fields.word("stage") or "sft").lower()
    if method in ("ppo", "rm"):
        refuse_method("stage", method)
    run, _ = overlay(read_arguments(fields), _own(fields))
    on = switched(fields, packing="packing") | switched(fields, packing="neat_packing")
    on |= switched(fields, offload_activations="use_unsloth_gc")
    run, _ = overlay(run, Run(plan=on))
    if method in ("dpo", "kto"):
        loss = (fields.word("pref_loss") or "sigmoid").lower()
        held = loss not in ("orpo", "simpo")
        run, _ = overlay(run, preference(fields, "stage", method, reference=held))
    refuse_dora(fields, "use_dora")
    for path, why in _LEFT.items():
        if fields.flag(path) if fields.peek(path) not in ("convert", "load") else True:
            fields.leave(path, why)
    usual = Run(mixed="no", loaded="bf16", upcast=True, samples=8, grad_acc=1, seq=2048)
    usual = usual.filled(recompute=True, reentrant=True, optimizer=OPTIMIZER)
    if fields.flag("disable_gradient_checkpointing"):
        usual = usual.filled(recompute=False)
    run, usual = _megatron(fields, run, usual)
    fields.ignore(*options(KIND, "transformers"), *NESTED, "hyper_parallel_args.*")
    fields.ignore("resources_per_worker.*", "ray_init_kwargs.*", "vllm_config.*", "sglang_config.*")
    return (*beside, part(KIND, document, fields, run, usual))


_MEGATRON = (
    *("tensor_model_parallel_size", "pipeline_model_parallel_size", "use_distributed_optimizer"),
    *("expert_model_parallel_size", "recompute_granularity"),
)
_FUSIONS = (
    "bias_activation_fusion",
    "apply_rope_fusion",
    "moe_grouped_gemm",
    "use_mca",
)


def _megatron(fields: Fields, run: Run, usual: Run) -> tuple[Run, Run]:
    """The run over Megatron-Core, where Megatron's degrees are named; else as it was."""
    if not fields.has(*_MEGATRON) and not fields.flag("use_mca"):
        fields.ignore("use_mca")
        return run, usual
    plan = read_degrees(fields, sharded=False) | read_recompute(fields, "none")
    dispatcher = fields.word("moe_token_dispatcher_type")
    if dispatcher is not None:
        plan["moe_dispatcher"] = dispatcher
        fields.says("moe_dispatcher", "moe_token_dispatcher_type")
    fields.ignore(*_FUSIONS)
    run, _ = overlay(run, Run(engine="megatron", plan=plan))
    return run, dataclasses.replace(usual, recompute=None, reentrant=None, upcast=None)


def _check_trains(document: Document, fields: Fields) -> None:
    """Chat, merging and evaluation have the same keys."""
    if fields.has("export_dir"):
        raise not_a_launch(document, "it merges and exports a model")
    if fields.has("task") and not fields.has("output_dir"):
        raise not_a_launch(document, "it evaluates a model")
    train = fields.flag("do_train")
    if train is False or (train is None and not _looks_like_training(fields)):
        raise not_a_launch(document, "do_train is not set")


def _looks_like_training(fields: Fields) -> bool:
    return fields.has("per_device_train_batch_size", "num_train_epochs", "learning_rate")


def _own(fields: Fields) -> Run:
    """LLaMA-Factory's own keys."""
    plan = read_attention(fields, "flash_attn")
    habits = liger(fields, "enable_liger_kernel")
    if fields.flag("use_unsloth"):
        habits |= {"loss": "upcast-in-place", "adapter_kernel": "fused", "norm": "fused"}
    plan.update(_trained(fields))
    pure = fields.flag("pure_bf16")
    off = fields.flag("disable_gradient_checkpointing")
    return Run(
        model=fields.word("model_name_or_path"),
        mixed="fp8" if fields.flag("fp8") else "no" if pure else None,
        loaded="bf16" if pure else "fp16" if fields.peek("fp16") is True else None,
        upcast=False if pure else None,
        optimizer="muon" if fields.flag("use_muon") else None,
        recompute=False if off else None,
        reentrant=fields.flag("use_reentrant_gc"),
        seq=fields.whole("cutoff_len", least=1),
        plan=plan,
        habits=habits,
    )


def _trained(fields: Fields) -> dict[str, object]:
    """Adapters, by the type of fine-tuning; LoRA where none is named."""
    kind = (fields.word("finetuning_type") or "lora").lower()
    if kind == "freeze":
        fields.leave("finetuning_type", "weighed as if every weight trains: an upper bound")
    if kind in ("full", "freeze"):
        return {}
    if kind == "oft":
        fields.leave("finetuning_type", "weighed as LoRA of the same rank")
    name = str(fields.peek("model_name_or_path"))
    note_checkpoint(fields, name)
    targets = fields.words("lora_target", "oft_target") or ("all",)
    return adapter_plan(
        fields,
        rank=fields.whole("lora_rank", least=1) or 8,
        targets=targets,
        target_path="lora_target",
        dropout=fields.number("lora_dropout"),
        saved=fields.words("additional_target"),
        saved_path="additional_target",
        base=_base(fields) or prequantised(name),
    )


def _base(fields: Fields) -> str | None:
    bits = fields.whole("quantization_bit", least=1)
    method = (fields.word("quantization_method") or "bnb").lower().removeprefix("bitsandbytes")
    nested = fields.flag("double_quantization")
    fields.word("quantization_type")
    if bits is None:
        return None
    if method not in ("", "bnb"):
        fields.leave("quantization_method", "weighed as bitsandbytes' format of as many bits")
    if bits == 4:
        return four_bits(nested=nested is not False)
    if bits != 8:
        fields.leave(
            "quantization_bit", "weighed with 4 bits" if bits < 4 else "weighed with 8 bits"
        )
    return "int8" if bits > 4 else "nf4"
