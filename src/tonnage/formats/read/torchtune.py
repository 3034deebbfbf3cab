"""torchtune's recipes.

Source: torchtune 0.4 to 0.6, ``recipes/configs`` and the recipes that read them. The model is
named by the function that builds it (``torchtune.models.llama3_1.lora_llama3_1_8b``).
"""

from __future__ import annotations

import re

from tonnage.errors import NotModelledError
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.hugging_face.adapters import read_targets
from tonnage.formats.hugging_face.optimizers import find_optimizer
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.read.torchtune_command import is_command, unfold
from tonnage.plan.plan import LoraTarget

KIND = "torchtune"

_HUB = {
    "llama2_7b": "meta-llama/Llama-2-7b-hf",
    "llama2_13b": "meta-llama/Llama-2-13b-hf",
    "llama2_70b": "meta-llama/Llama-2-70b-hf",
    "code_llama2_7b": "codellama/CodeLlama-7b-hf",
    "code_llama2_13b": "codellama/CodeLlama-13b-hf",
    "code_llama2_70b": "codellama/CodeLlama-70b-hf",
    "llama3_8b": "meta-llama/Meta-Llama-3-8B",
    "llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama3_1_8b": "meta-llama/Llama-3.1-8B",
    "llama3_1_70b": "meta-llama/Llama-3.1-70B",
    "llama3_1_405b": "meta-llama/Llama-3.1-405B",
    "llama3_2_1b": "meta-llama/Llama-3.2-1B",
    "llama3_2_3b": "meta-llama/Llama-3.2-3B",
    "llama3_3_70b": "meta-llama/Llama-3.3-70B-Instruct",
    "llama3_2_vision_11b": "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "llama3_2_vision_90b": "meta-llama/Llama-3.2-90B-Vision-Instruct",
    "llama4_scout_17b_16e": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "llama4_maverick_17b_128e": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "mistral_7b": "mistralai/Mistral-7B-v0.1",
    "gemma_2b": "google/gemma-2b",
    "gemma_7b": "google/gemma-7b",
    "gemma2_2b": "google/gemma-2-2b",
    "gemma2_9b": "google/gemma-2-9b",
    "gemma2_27b": "google/gemma-2-27b",
    "phi3_mini": "microsoft/Phi-3-mini-4k-instruct",
    "phi4_14b": "microsoft/phi-4",
    **{
        f"qwen2_{size}": f"Qwen/Qwen2-{size.replace('_', '.').upper()}"
        for size in ("0_5b", "1_5b", "7b")
    },
    **{
        f"qwen2_5_{size}": f"Qwen/Qwen2.5-{size.replace('_', '.').upper()}"
        for size in ("0_5b", "1_5b", "3b", "7b", "14b", "32b", "72b")
    },
    **{
        f"qwen3_{size}": f"Qwen/Qwen3-{size.replace('_', '.').upper()}"
        for size in ("0_6b", "1_7b", "4b", "8b", "14b", "32b")
    },
}
"""Builders of torchtune and the checkpoints that its recipes load into them."""

_PREFIX = re.compile(r"^(?:q?lora|q?dora|lora_qat|qat_lora)_")
_SUFFIX = re.compile(r"_(?:instruct|base)$")

_FORMATS = {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16-no-master"}

_IRRELEVANT = (
    *("output_dir", "tokenizer*", "dataset*", "dataloader*", "seed", "shuffle", "checkpointer*"),
    *("resume_from_checkpoint", "save_adapter_weights_only", "epochs", "max_steps_per_epoch"),
    *(
        "lr_scheduler*",
        "optimizer.*",
        "metric_logger*",
        "log_*",
        "profiler*",
        "device",
        "clip_grad*",
    ),
    *("collate_fn*", "run_val_every_n_steps", "batch_size_val", "low_cpu_ram", "max_bsize"),
    *(
        "custom_sharded_layers",
        "memory_efficient_fsdp_wrap",
        "num_steps",
        "save_every_*",
        "model.*",
    ),
    *("tensor_parallel_plan*", "ref_checkpointer*", "loss.*", "use_output_mask_in_forward"),
    *("optimizer_in_bwd", "ac_mode", "ac_option", "cudnn_deterministic_mode", "enable_async_*"),
    *("keep_last_n_checkpoints", "resume_*", "steps_to_save", "num_output_chunks", "garbage*"),
    *("enable_fp8_training", "fp8_recipe_name", "context_parallel_rotate_method", "val_*", "name"),
)


def detect(document: Document) -> bool:
    """Whether components are named by ``_component_``, or ``tune run`` starts a recipe."""
    if document.syntax == "shell":
        return is_command(document)
    mapped = [value for value in document.values.values() if isinstance(value, dict)]
    return sum("_component_" in value for value in mapped) >= 2


def read(document: Document) -> Launch:
    """Read a recipe's configuration.

    Raises:
        InputError: it starts no training, or a key has no value of its type.
        NotModelledError: it generates, or distils one model into another.
    """
    count: int | None = None
    if document.syntax == "shell":
        document, count = unfold(document)
    fields = Fields(document.values)
    _check_trains(document, fields)
    draft = Draft(KIND, fields, KIND)
    draft.gpus = count
    _model(draft)
    _batch(draft)
    _precision(draft)
    _optimizer(draft)
    _loss(draft)
    _memory(draft)
    _sharding(document, draft)
    if fields.under("quantizer") and fields.peek("quantizer") is None:
        for path in fields.under("quantizer"):
            fields.leave(path, "fake quantisation is left out")
    fields.ignore(*_IRRELEVANT)
    return draft.finish()


def _check_trains(document: Document, fields: Fields) -> None:
    if fields.has("policy_model._component_", "ppo_epochs", "reward_and_value_model._component_"):
        raise NotModelledError(
            field="config.ppo_epochs",
            value=fields.peek("ppo_epochs") or "PPO",
            problem="is no training launch that is modelled: it generates within its step",
            accepted="supervised or DPO training",
        )
    if fields.has("teacher_model._component_"):
        raise NotModelledError(
            field="config.teacher_model",
            value=fields.peek("teacher_model._component_"),
            problem="is no training launch that is modelled: it distils a teacher",
            accepted="supervised or DPO training",
        )
    if not fields.has("optimizer._component_"):
        raise not_a_launch(document, "it evaluates, generates, quantises or serves a model")


def _model(draft: Draft) -> None:
    """The model of a builder's name, and its adapters."""
    fields = draft.fields
    builder = (fields.word("model._component_") or "").rsplit(".", 1)[-1]
    plain = _SUFFIX.sub("", _PREFIX.sub("", builder))
    draft.model = _HUB.get(plain)
    if draft.model is None:
        fields.note(f"model._component_: {builder} is no builder whose model is known")
    if plain.startswith("llama3_2_vision"):
        fields.note("the vision encoder's images and what of it is frozen are not weighed")
        fields.ignore("model.*_trainable", "model.image_size")
    if builder == plain and not fields.has("model.lora_rank"):
        return
    _adapters(draft, builder)


def _adapters(draft: Draft, builder: str) -> None:
    fields = draft.fields
    modules = fields.words("model.lora_attn_modules")
    targets: list[LoraTarget] = list(read_targets(modules).known)
    if fields.flag("model.apply_lora_to_mlp"):
        targets += ["gate_proj", "up_proj", "down_proj"]
    if fields.flag("model.apply_lora_to_output"):
        targets.append("lm_head")
    draft.whole("lora_rank", "model.lora_rank")
    draft.plan.setdefault("lora_rank", 8)
    draft.put("lora_targets", tuple(dict.fromkeys(targets)) or None, "model.lora_attn_modules")
    draft.put("lora_dropout", fields.number("model.lora_dropout"), "model.lora_dropout")
    if builder.startswith("q") or fields.flag("model.quantize_base"):
        draft.put("lora_base", "nf4-dq", "model._component_")
    if "dora" in builder or fields.flag("model.use_dora"):
        fields.leave("model.use_dora", "weighed as plain LoRA: DoRA's norms are left out")
        fields.note("DoRA is weighed as plain LoRA: its magnitudes and norms are left out")


def _batch(draft: Draft) -> None:
    fields = draft.fields
    draft.whole("mbs", "batch_size")
    draft.whole("grad_acc", "gradient_accumulation_steps")
    lengths = ("dataset.max_seq_len", "tokenizer.max_seq_len", "max_seq_len")
    if draft.whole("seq", *lengths) is None:
        draft.lack("seq")
    draft.put("packing", fields.flag("dataset.packed") or None, "dataset.packed")


def _precision(draft: Draft) -> None:
    fields = draft.fields
    word = (fields.word("dtype") or "bf16").lower()
    if word not in _FORMATS:
        fields.fail("dtype", word, ", ".join(_FORMATS))
    draft.put("precision", _FORMATS[word], "dtype")
    if fields.flag("enable_fp8_training"):
        draft.put("precision", "fp8-amp", "enable_fp8_training")


def _optimizer(draft: Draft) -> None:
    fields = draft.fields
    name = fields.word("optimizer._component_") or ""
    found = find_optimizer(name)
    if found is None:
        fields.leave("optimizer._component_", "not modelled: weighed as adamw")
    else:
        draft.put("optimizer", found.name, "optimizer._component_")
        if found.note:
            fields.note(f"optimizer._component_ {name}: {found.note}")
    if fields.flag("optimizer.fused"):
        draft.put("optimizer_step", "fused", "optimizer.fused")
    draft.flag("optimizer_in_backward", "optimizer_in_bwd")


def _loss(draft: Draft) -> None:
    """Chunked unless the loss is torch's own; pairs of answers with DPO and its kin."""
    fields = draft.fields
    loss = (fields.word("loss._component_") or "").rsplit(".", 1)[-1]
    draft.flag("compile", "compile", "compile.loss")
    fields.use("compile.*")
    if loss in ("DPOLoss", "RSOLoss", "SimPOLoss"):
        draft.plan["mbs"] = 2 * int(draft.plan.get("mbs", 1))
        fields.note(f"loss {loss}: a pair of answers is two sequences of a micro-batch")
        draft.put("reference_model", loss != "SimPOLoss" or None, "loss._component_")
        draft.put("loss", "eager", "loss._component_")
    elif loss == "CrossEntropyLoss":
        draft.put("loss", "eager", "loss._component_")
    elif draft.plan.get("compile"):
        draft.put("loss", "chunked-compiled", "loss._component_")


def _memory(draft: Draft) -> None:
    fields = draft.fields
    if fields.flag("enable_activation_checkpointing"):
        draft.put("recompute", "full", "enable_activation_checkpointing")
    elif fields.peek("ac_mode") == "full":
        draft.put("recompute", "full", "ac_mode")
    elif fields.peek("ac_mode") == "selective" and fields.has("ac_option"):
        every = fields.whole("ac_option", least=1)
        if every == 2:
            draft.put("recompute", "selective", "ac_option")
            draft.put("recompute_modules", ("every-second-layer",), "ac_option")
        elif every != 1:
            fields.leave("ac_option", "weighed with no layer recomputed: an upper bound")
        else:
            draft.put("recompute", "full", "ac_option")
    offload = fields.flag("enable_activation_offloading")
    draft.put("offload_activations", offload or None, "enable_activation_offloading")


def _sharding(document: Document, draft: Draft) -> None:
    """``fully_shard`` over the devices that the degrees leave; nothing is sharded over one."""
    fields = draft.fields
    draft.put("zero", 3)
    named = f"{document.name} {fields.peek('output_dir')}"
    if "single_device" in named and draft.gpus is None:
        draft.gpus = 1
        fields.note("a recipe for a single device, by its name")
    on_host = fields.flag("fsdp_cpu_offload", "fsdp.cpu_offload")
    draft.put("offload_parameters", on_host or None, "fsdp_cpu_offload", "fsdp.cpu_offload")
    if fields.flag("fsdp_reshard_after_forward") is False:
        fields.leave("fsdp_reshard_after_forward", "weighed with parameters resharded")
    for axis, path in (("tp", "tensor_parallel_dim"), ("cp", "context_parallel_dim")):
        draft.whole(axis, path)
    replicas = fields.whole("data_parallel_replicate_dim", least=1) or 1
    shards = fields.peek("data_parallel_shard_dim")
    if replicas > 1 and str(shards) not in ("-1", "None"):
        draft.whole("hsdp_shard", "data_parallel_shard_dim")
    else:
        fields.use("data_parallel_shard_dim")
    fields.ignore("fsdp.*")
