"""NeMo and Megatron-Bridge: YAML, Hydra's overrides on a command line, and Python recipes.

NeMo 1 keeps Megatron's options under ``model`` and the cluster under ``trainer``
(https://docs.nvidia.com/nemo-framework/user-guide/24.07); Megatron-Bridge spreads them over
``model``, ``train``, ``ddp`` and ``optimizer`` (https://docs.nvidia.com/nemo/megatron-bridge).
"""

from __future__ import annotations

import re

from tonnage.arch import load
from tonnage.files import UnreadableError
from tonnage.formats.command import read_command
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.lora import targets
from tonnage.formats.megatron_hybrid import is_hybrid, read_hybrid
from tonnage.formats.megatron_ignored import IGNORED
from tonnage.formats.megatron_names import Names
from tonnage.formats.megatron_plan import (
    read_batch,
    read_experts,
    read_kernels,
    read_parallel,
    read_predictors,
    read_recompute,
)
from tonnage.formats.megatron_shape import read_shape
from tonnage.formats.model_name import catalog_name
from tonnage.formats.python_text import MODEL, read_python
from tonnage.formats.text import refuse

_SECTIONS = (
    *("model", "model.config", "model.data.train_ds", "train", "ddp", "optimizer", "dataset"),
    *("mcore_customization_config", "model.mcore_customization_config"),
    *("strategy", "trainer.strategy", "data", "data.common", "model.data", "trainer", ""),
)
_ALIASES = {
    "bias": "add-bias-linear",
    "max-seq-length": "seq-length",
    "sequence-length": "seq-length",
    "gradient-checkpointing": "recompute-activations",
    "max-steps": "train-iters",
    "mamba-ssm-ngroups": "mamba-num-groups",
    "override-vocab-size": "vocab-size",
    "grad-reduce-dtype": "gradient-dtype",
}
_TASKS = {
    "prune": "it prunes a model",
    "quantization": "it quantizes a model",
    "inference": "it generates text",
    "generate": "it generates text",
    "export": "it exports a model",
    "gpt_model_file": "it reads a trained model and names no optimizer",
    "checkpoint_dir": "it reads a trained model and names no optimizer",
}
_OTHER = (
    *("preprocessor", "spec_augment", "speech_encoder", "sample_rate", "vocoder", "perception"),
    *("vision_encoder", "image_size", "unet_config", "first_stage_config", "mm_cfg", "diffusion"),
    *("audio_encoder", "tarred_audio_filepaths", "labels", "joint", "retro", "bert_binary_head"),
)
_MIXERS = re.compile("jamba|griffin|hyena|mamba|retro|t5|bart|bert|nmt")
"""Models whose layers NeMo's code chooses by the script: their files only have a GPT's sizes."""
_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "squared-relu": "relu2"}
_IGNORED = (
    *("exp_manager*", "trainer*", "name", "defaults", "hydra*", "callbacks*", "resume*", "logger*"),
    *("model.tokenizer.*", "model.data.*", "data*", "model.optim.*", "optim.*", "model.nsys*"),
    *("model.peft*", "model.inference*", "inference*", "plugins*", "max_time_per_run", "log.*"),
    *("strategy*", "model.optimizer.*", "optimizer*", "scheduler*", "checkpoint*", "rng.*"),
    *("dist.*", "ft*", "straggler*", "nvrx*", "rerun*", "profiling*", "tokenizer*", "dataset*"),
    *("*._target_", "model.use_scaled_init_method", "model.do_layer_norm*", "model.restore_*"),
    *(
        "model.mcore_gpt",
        "model.megatron_legacy",
        "model.sharp",
        "restore_from_path",
        "target",
        "nemo_version",
        "gc_interval",
        "*mcore_customization_config.new_decoder_architecture",
        "model.transformer_engine",
        "model.attention_type",
        "model.answer_only_loss",
        "model.save_*",
    ),
    *("model.resume_*", "model.gradient_as*", "model.fsdp_*", "model.grad_*", "run*", "cluster*"),
    *("model.use_emha", "model.apex_*", "model.precision", "model.seed", "seed", "model.name"),
    *("ddp.*", "train.*", "mixed_precision*", "comm_overlap*", "wandb*", "train_valid_test*"),
)
_OFF = (
    *("model.fp32_residual_connection", "model.num_micro_batches_with_partial*", "model.fsdp*"),
    *("model.cpu_offloading*", "model.activations_checkpoint_layers_per*", "model.freeze*"),
    *("model.context_parallel*", "model.sequence_packing", "model.moe*", "model.num_moe*"),
)
"""Options that are modelled neither on nor half on, and mean nothing while they are off."""


def detect(document: Document) -> bool:
    """Whether the content is NeMo's or Megatron-Bridge's."""
    if document.syntax == "shell":
        names = set(read_command(document).options)
        return any(n.startswith(("trainer.", "model.", "train.")) for n in names) and any(
            n.endswith(("tensor_model_parallel_size", "num_nodes", "micro_batch_size"))
            for n in names
        )
    if document.syntax == "python":
        return "tensor_model_parallel_size" in document.text or "megatron.bridge" in document.text
    if document.any("trainer.num_nodes", "trainer.devices", "exp_manager"):
        return True
    return document.any("model.tensor_model_parallel_size", "train.micro_batch_size")


def read(document: Document) -> Launch:
    """Read a file of NeMo or Megatron-Bridge.

    Raises:
        InputError: it trains nothing, or a key has no value of its type.
    """
    fields, gpus = _fields(document)
    draft = Draft("nemo", fields, "megatron")
    names = Names(fields, _SECTIONS, _ALIASES)
    _insist_on_training(document, draft)
    _read_cluster(draft)
    if draft.gpus is None:
        draft.gpus = gpus
    read_parallel(draft, names)
    _read_batch(draft, names)
    _read_precision(draft, names)
    read_recompute(draft, names)
    read_kernels(draft, names, fused=True)
    _read_optimizer(draft, names)
    read_experts(draft, names, dispatcher="alltoall")
    read_predictors(draft, names)
    _read_adapters(draft)
    _read_model(draft, names)
    names.ignore(*IGNORED)
    fields.ignore(*_IGNORED)
    fields.ignore_off(*_OFF)
    return draft.finish()


def _fields(document: Document) -> tuple[Fields, int | None]:
    """The keys, and the processes that a launcher starts."""
    if document.syntax == "shell":
        command = read_command(document)
        return Fields(command.options), command.gpus
    if document.syntax != "python":
        return Fields(document.values), None
    try:
        values, several = read_python(document.text)
    except UnreadableError as error:
        raise refuse(document.name, str(error)) from None
    fields = Fields(values)
    for name in several:
        fields.note(f"{name} is set to several values: the last one counts")
    return fields, None


def _insist_on_training(document: Document, draft: Draft) -> None:
    fields = draft.fields
    trains = any(
        fields.under(path)
        for path in ("model.optim", "optim", "optimizer", "train", "model.optimizer", "scheduler")
    )
    if trains or document.syntax != "yaml":
        return
    for section, why in _TASKS.items():
        if fields.under(section):
            raise not_a_launch(document, why)
    raise not_a_launch(document, "it names no optimizer")


def _read_cluster(draft: Draft) -> None:
    fields = draft.fields
    here = ("trainer", "", "cluster")
    devices = fields.take(*(f"{s}.devices".lstrip(".") for s in here), "gpus_per_node")
    if isinstance(devices, list):
        devices = len(devices)
    nodes = fields.whole(*(f"{s}.num_nodes".lstrip(".") for s in here), least=1)
    each = int(devices) if str(devices).isdigit() and len(str(devices)) < 6 else 0
    if each > 0 and nodes:
        draft.gpus = each * nodes


def _read_batch(draft: Draft, names: Names) -> None:
    fields = draft.fields
    read_batch(draft, names)
    draft.steps = draft.steps or fields.whole("trainer.max_steps", least=1)


def _read_precision(draft: Draft, names: Names) -> None:
    """``megatron_amp_O2`` keeps 16-bit weights with fp32 masters; without it autocast casts."""
    fields = draft.fields
    written = fields.take("trainer.precision", "plugins.precision", "mixed_precision", "precision")
    word = str(written or "").lower().replace("_", "-")
    whole = fields.flag("model.megatron_amp_O2", "model.megatron_amp_02")
    wide = whole is False
    if word in ("16", "16-mixed", "fp16", "fp16-mixed"):
        recipe = "fp16-amp" if wide else "fp16-mixed"
    elif word in ("32", "32-true", "fp32"):
        recipe = "fp32"
    else:
        recipe = "bf16-amp" if wide else "bf16-mixed"
        if not word:
            fields.note("precision bf16-mixed: not given, what the recipes of the tool do")
    eight = names.flag("fp8") if not isinstance(names.fields.peek("model.fp8"), str) else True
    fields.use("model.fp8")
    if eight or "fp8" in word:
        recipe = "mxfp8" if "mxfp8" in word or "mx" in (names.word("fp8-recipe") or "") else "fp8"
    draft.put("precision", recipe, "trainer.precision")
    narrow = str(fields.take("model.grad_reduce_dtype", "model.optim.grad_sync_dtype") or "")
    if narrow in ("bf16", "bfloat16") and recipe == "bf16-mixed":
        draft.put("reduction_dtype", "bf16", "model.optim.grad_sync_dtype")


def _read_optimizer(draft: Draft, names: Names) -> None:
    fields = draft.fields
    named = (
        fields.word("model.optim.name", "optim.config.optimizer", "optimizer.optimizer")
        or "distributed_fused_adam"
    ).lower()
    sharded = "distributed" in named or names.flag("use-distributed-optimizer")
    plain = named.removeprefix("mcore_").removeprefix("distributed_").removeprefix("fused_")
    known = {"adam": None, "adamw": None, "optim": None, "sgd": "momentum"}
    draft.put("optimizer", known.get(plain, plain), "model.optim.name", "optimizer.optimizer")
    if fields.flag("model.fsdp"):
        strategy = fields.word("model.fsdp_sharding_strategy") or "full"
        draft.plan["runtime"] = "megatron-fsdp"
        draft.put("zero", 2 if strategy == "grad" else 3, "model.fsdp_sharding_strategy")
        return
    draft.put("zero", int(bool(sharded)), "model.optim.name")
    for field in ("overlap_grad_reduce", "overlap_param_gather"):
        option = field.replace("_", "-")
        draft.put(field, names.flag(option), *names(option))


def _read_adapters(draft: Draft) -> None:
    fields, here = draft.fields, "model.peft"
    scheme = fields.word(f"{here}.peft_scheme", "peft.peft_scheme")
    target = fields.word(f"{here}._target_", "peft._target_") or ""
    if scheme == "lora":
        fields.whole(f"{here}.lora_tuning.adapter_dim")
        draft.whole("lora_rank", f"{here}.lora_tuning.adapter_dim")
        words = fields.words(f"{here}.lora_tuning.target_modules")
        found, _ = targets(words)
        draft.put("lora_targets", found or None, f"{here}.lora_tuning.target_modules")
    elif target.endswith(("LoRA", "PeftConfig")):
        draft.whole("lora_rank", f"{here}.dim", "peft.dim")
        found, _ = targets(fields.words("peft.target_modules", f"{here}.target_modules"))
        draft.put("lora_targets", found or None, "peft.target_modules")
        fields.ignore("peft.*")
    elif scheme not in (None, "none", "None"):
        fields.leave(f"{here}.peft_scheme", "is not modelled: the estimate trains every weight")


def _read_model(draft: Draft, names: Names) -> None:
    fields = draft.fields
    given = fields.word(f"model.{MODEL}", MODEL, "model.hf_model_name", "hf_path")
    other = [p for p in fields.leaves if any(f".{mark}" in f".{p}" for mark in _OTHER)]
    if other:
        draft.no_model(f"{other[0].split('.')[-1]}: the file trains more than a language model")
        return
    if given is not None:
        draft.model = given
        return
    preset = fields.word("model.config._target_", "model._target_", "recipe")
    if preset is not None and catalog_name(preset.rsplit(".", 1)[-1]) is not None:
        draft.model = catalog_name(preset.rsplit(".", 1)[-1])
        return
    activation = (names.word("activation") or "gelu").lower().removeprefix("fast-")
    over: dict[str, object] = {}
    if names.has("activation"):
        over["gated_linear_unit"] = activation in ("swiglu", "geglu", "reglu")
        over["activation_func"] = _ACTIVATIONS.get(activation, activation)
    if names.flag("parallel-attention"):
        over["parallel_residual"] = True
    block = names.word("transformer-block-type")
    if block not in (None, "pre_ln"):
        draft.no_model(f"transformer_block_type {block} is not modelled")
        return
    if is_hybrid(names):
        read_hybrid(draft, names)
        return
    named = _MIXERS.search(fields.word("name") or "")
    if named is not None:
        draft.no_model(f"name: layers of {named[0]} are not read, nor are their sizes")
        fields.ignore("model.*")
        return
    read_shape(draft, names, **{**over, **_vocabulary(names)})


def _vocabulary(names: Names) -> dict[str, object]:
    """The tokenizer stands in a section of its own."""
    if names.has("vocab-size", "padded-vocab-size"):
        return {}
    fields, here = names.fields, "model.tokenizer."
    kind = fields.path(f"{here}type") or ""
    known = catalog_name(kind) if "/" in kind else None
    if known is not None:
        return {"vocab_size": load(known).vocab}
    gpt2 = (fields.path(f"{here}merge_file") and fields.path(f"{here}vocab_file")) or (
        kind == "GPT2BPETokenizer"
    )
    if gpt2:
        fields.note("vocabulary 50257: that of GPT-2's tokenizer")
        return {"vocab_size": 50_257}
    return {}
