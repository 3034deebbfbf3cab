"""axolotl's YAML.

Source: axolotl 0.1x, ``utils/schemas`` (``AxolotlInputConfig`` and what it is made of) and the
arguments of its integrations; ``loaders/model.py`` for the format that weights are loaded in.
"""

from __future__ import annotations

import dataclasses

from tonnage.formats.detect_error import not_a_launch
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
    refuse_dora,
    refuse_method,
    switched,
)
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Mixed, Run, overlay
from tonnage.formats.hugging_face.sharding import of_options, read_fsdp, read_options
from tonnage.formats.hugging_face.trainer import NESTED as TRAINER
from tonnage.formats.hugging_face.trainer import read_arguments
from tonnage.formats.keys import Fields
from tonnage.formats.options import options
from tonnage.formats.read.axolotl_keys import LEFT, NESTED

KIND = "axolotl"

USUAL = Run(
    mixed="bf16", loaded="bf16", samples=1, grad_acc=1, seq=512, optimizer="adamw_torch_fused"
)
"""axolotl's defaults; weights are loaded in the format that is trained in."""


def detect(document: Document) -> bool:
    """Whether the keys are axolotl's own."""
    return document.has("base_model") and document.any(
        *("sequence_len", "micro_batch_size", "adapter", "datasets", "num_epochs", "rl"),
        *("pretraining_dataset", "sample_packing", "val_set_size"),
    )


def parts(document: Document) -> tuple[Part, ...]:
    """The run, and the DeepSpeed configuration that it names.

    Raises:
        InputError: it does not train, or a key has no value of its type.
        NotModelledError: a method that generates or trains a reward model.
    """
    fields = Fields(document.values)
    _check_trains(document, fields)
    beside = referred(document, fields, "deepspeed")
    run, _ = overlay(read_arguments(fields), _own(fields))
    run, _ = overlay(run, _sharding(fields, has_deepspeed=bool(beside)))
    adapted = _adapters(fields)
    run, _ = overlay(run, Run(plan=adapted))
    on = switched(fields, packing="sample_packing")
    on |= switched(fields, packing="pretraining_sample_concatenation")
    on |= _activations(fields)
    run, _ = overlay(run, Run(plan=on, recompute=_checkpointing(fields)))
    run, _ = overlay(run, _method(fields))
    refuse_dora(fields, "peft_use_dora")
    _leave(fields)
    fields.ignore(*options(KIND, "transformers"), *NESTED, *TRAINER)
    return (*beside, part(KIND, document, fields, run, USUAL))


def _leave(fields: Fields) -> None:
    """What is known and not modelled, a switch or a section, where it is on."""
    for path, why in LEFT.items():
        value = fields.peek(path)
        on = value is True or value not in (None, False, 0, 1, "false", [], 1.0)
        if any(key != path for key in fields.under(path)):
            on = fields.peek(f"{path}.enabled") is not False
        for key in fields.under(path):
            fields.leave(key, why) if on else fields.ignore(key)


def _check_trains(document: Document, fields: Fields) -> None:
    for path in ("inference", "merge_lora"):
        if fields.flag(path):
            raise not_a_launch(document, f"{path} is set")


def _own(fields: Fields) -> Run:
    """Axolotl's own names for what the Trainer has too."""
    plan: dict[str, object] = {}
    plan.update(read_attention(fields, "attn_implementation"))
    if fields.flag("eager_attention"):
        plan["attention"] = "eager"
    if fields.flag("flash_attention", "flash_attn"):
        plan.setdefault("attention_version", 2)
    fields.flag("sdp_attention", "xformers_attention", "flex_attention", "sage_attention")
    half = fields.flag("bfloat16")
    half16 = fields.flag("float16")
    wide = fields.flag("float32")
    loaded = "bf16" if half else "fp16" if half16 or fields.peek("fp16") is True else None
    mixed = _mixed(fields, half=bool(half or half16))
    return Run(
        model=fields.word("base_model"),
        mixed=mixed,
        loaded="fp32" if wide else loaded,  # type: ignore[arg-type]
        optimizer=fields.word("optimizer"),
        samples=fields.whole("micro_batch_size", least=1),
        batch=fields.whole("batch_size", least=1),
        seq=fields.whole("sequence_len", least=1),
        processes=fields.whole("world_size", least=1),
        plan=plan,
        habits=_kernels(fields),
    )


def _mixed(fields: Fields, *, half: bool) -> Mixed | None:
    """Only what the Trainer's switches do not say: FP8, and 16 bits without autocast."""
    if fields.flag("fp8"):
        return "fp8"
    on = fields.peek("bf16"), fields.peek("fp16")
    return "no" if half and not any(on) else None


def _checkpointing(fields: Fields) -> bool | None:
    """``offload`` is checkpointing too; true and false are read with the Trainer's arguments."""
    return True if _offloads(fields) else None


def _offloads(fields: Fields) -> bool:
    value = fields.peek("gradient_checkpointing")
    return str(value).lower() in ("offload", "offload_disk", "unsloth")


def _activations(fields: Fields) -> dict[str, object]:
    """Activations that are held on the host."""
    on = _offloads(fields) or fields.peek("activation_offloading") not in (None, False)
    fields.use("activation_offloading")
    if on:
        fields.says("offload_activations", "activation_offloading")
        if _offloads(fields):
            fields.use("gradient_checkpointing")
    return {"offload_activations": True} if on else {}


def _kernels(fields: Fields) -> dict[str, str]:
    """Kernels of Liger and others, by what they fuse."""
    habits: dict[str, str] = {}
    for path, habit, value in (
        ("liger_rms_norm", "norm", "fused"),
        ("liger_layer_norm", "norm", "fused"),
        ("unsloth_rms_norm", "norm", "fused"),
        ("liger_glu_activation", "activation", "fused"),
        ("liger_swiglu", "activation", "fused"),
        ("chunked_cross_entropy", "loss", "chunked"),
        ("flash_attn_cross_entropy", "loss", "upcast-in-place"),
        ("unsloth_cross_entropy_loss", "loss", "upcast-in-place"),
        ("liger_cross_entropy", "loss", "upcast-in-place"),
        ("liger_fused_linear_cross_entropy", "loss", "linear"),
        ("cut_cross_entropy", "loss", "linear"),
    ):
        if fields.flag(path):
            habits[habit] = value
    plugins = [name.rsplit(".", 1)[-1] for name in fields.words("plugins")]
    if "CutCrossEntropyPlugin" in plugins and not fields.has("cut_cross_entropy"):
        habits["loss"] = "linear"
    if any(fields.flag(f"lora_{part}_kernel") for part in ("mlp", "qkv", "o")):
        habits["adapter_kernel"] = "fused"
    return habits


def _sharding(fields: Fields, *, has_deepspeed: bool) -> Run:
    """FSDP by its three spellings, and the sizes of a device mesh."""
    options = read_options(fields, "fsdp")
    version = fields.whole("fsdp_version", least=1) or 1
    nested = bool(fields.under("fsdp_config")) and fields.peek("fsdp_config") is None
    said = read_fsdp(fields, "fsdp_config.", version=version) if nested else Run()
    if not options and not nested:
        said = Run()
    elif options:
        said, _ = overlay(said, of_options(fields, "fsdp", options))
        engine = "fsdp2" if version == 2 else "fsdp1"
        said = said if said.engine is not None else said.filled(engine=engine)
    mesh = _mesh(fields)
    if mesh.engine is not None and has_deepspeed:
        mesh = dataclasses.replace(mesh, engine=None)
    return overlay(said, mesh)[0]


def _mesh(fields: Fields) -> Run:
    """The sizes of a device mesh; tensor parallelism comes with ``fully_shard``."""
    sizes = {name: fields.whole(f"{name}_size", least=1) or 1 for name in _AXES}
    rings = fields.whole("sequence_parallel_degree", least=1) or 1
    degrees = {"tp": sizes["tensor_parallel"], "cp": max(rings, sizes["context_parallel"])}
    plan: dict[str, object] = {axis: size for axis, size in degrees.items() if size > 1}
    fields.says("tp", "tensor_parallel_size")
    fields.says("cp", "context_parallel_size", "sequence_parallel_degree")
    shards, copies = sizes["dp_shard"], sizes["dp_replicate"]
    if copies > 1 and shards > 1:
        plan["hsdp_shard"] = shards * degrees["cp"]
    count = shards * copies * degrees["tp"] * degrees["cp"]
    return Run(
        engine="fsdp2" if degrees["tp"] > 1 or shards > 1 else None,
        processes=count if shards > 1 else None,
        plan=plan,
    )


_AXES = ("dp_shard", "dp_replicate", "tensor_parallel", "context_parallel")


def _adapters(fields: Fields) -> dict[str, object]:
    """LoRA and QLoRA; nothing where every weight trains."""
    kind = (fields.word("adapter") or "").lower()
    if not kind or kind in ("false", "none", "null"):
        return {}
    if kind not in ("lora", "qlora"):
        fields.leave("adapter", "weighed as LoRA")
    name = fields.peek("base_model")
    base = None
    if fields.flag("load_in_4bit"):
        nested = fields.flag("bnb_config_kwargs.bnb_4bit_use_double_quant")
        base = four_bits(nested=nested is not False)
    elif fields.flag("load_in_8bit"):
        base = "int8"
    elif fields.flag("gptq"):
        base = "gptq4-g128"
    note_checkpoint(fields, str(name))
    targets = fields.words("lora_target_modules")
    if fields.flag("lora_target_linear"):
        targets = ("all",)
    return adapter_plan(
        fields,
        rank=fields.whole("lora_r", least=1) or 8,
        targets=targets,
        target_path="lora_target_modules",
        dropout=fields.number("lora_dropout"),
        saved=fields.words("lora_modules_to_save"),
        saved_path="lora_modules_to_save",
        base=base or prequantised(str(name)),
    )


def _method(fields: Fields) -> Run:
    """What a preference method adds; nothing in supervised training."""
    if fields.flag("reward_model", "process_reward_model"):
        refuse_method("reward_model", "reward")
    method = (fields.word("rl") or "").lower()
    if method in ROLLOUTS:
        refuse_method("rl", method)
    if not method or method == "false":
        return Run()
    return preference(fields, "rl", method, reference=method in ("dpo", "ipo", "kto"))
