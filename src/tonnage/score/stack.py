"""What the words of PyTorch and Hugging Face rows say together, and no word says alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tonnage.formats.hugging_face.adapters import QWEN, TARGETS
from tonnage.plan import LoraTarget
from tonnage.score.row import Row

_WORDS: dict[str, tuple[LoraTarget, ...]] = {
    **TARGETS,
    **QWEN,
    "q": ("q_proj",),
    "k": ("k_proj",),
    "v": ("v_proj",),
    "o": ("o_proj",),
    "query": ("q_proj",),
    "key": ("k_proj",),
    "value": ("v_proj",),
    "projection": ("o_proj",),
    "gate": ("gate_proj",),
    "up": ("up_proj",),
    "down": ("down_proj",),
    "head": ("lm_head",),
}
"""Names of adapted layers, and how rows shorten them."""


def lora_targets(row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The layers that get an adapter, and the words that name none.

    ``c_attn`` is one projection to queries, keys and values; where a model has it, ``c_proj``
    ends both attention and MLP (Qwen). Models without it ignore the name.
    """
    text = row.text("lora_targets")
    fields: dict[str, Any] = {}
    if "trainable" in text and "wte" in text:
        fields["lora_saved"] = ("embedding", "head")
        text = text.split("+")[0]
    words = re.findall(r"[a-z0-9_]+", text)
    found: list[LoraTarget] = []
    unknown = []
    for word in words:
        if word in _WORDS:
            found.extend(_WORDS[word])
        elif word == "c_proj":
            found.extend(("o_proj", "down_proj"))
        else:
            unknown.append(f"lora_targets: {word}")
    if "qkv_proj" in found and "q_proj" in found:
        separate = "gptbigcode" not in row.text("arch_note")
        dropped = ("qkv_proj",) if separate else ("q_proj", "k_proj", "v_proj", "o_proj")
        found = [target for target in found if target not in dropped]
    if found:
        fields["lora_targets"] = tuple(dict.fromkeys(found))
    return fields, tuple(unknown)


def settled(row: Row, words: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of a plan and habits, once what several words say together is worked out.

    Args:
        row: the measured run.
        words: what its words say one by one.
    """
    fields = dict(words)
    runtime = fields["runtime"] = _engine(row, fields["runtime"])
    habits = _loss(row, fields)
    if row.number("lora_rank"):
        fields.update(lora_targets(row)[0])
    if "precision" in fields:
        fields["precision"] = _precision(row, runtime, fields["precision"])
    _name_base(fields)
    if runtime == "deepspeed" and fields.get("zero") == 0:
        fields["zero"] = 2
    if fields.pop("grouped", False) and runtime.startswith("megatron"):
        habits.setdefault("linear_workspaces", GROUPED_WORKSPACES)
    _select(row, fields)
    _bridge(fields, habits)
    if runtime == "fsdp2" and row.count("layers") % row.count("pp", 1):
        fields.update(account_for_embedding=True, account_for_loss=True)
    if "mistral" in row.text("model") and "transformers 4.45" in row.text("fw_version"):
        habits["repeat_kv"] = "true"
    return fields, habits


GROUPED_WORKSPACES = "5"
"""Transformer Engine's, once grouped products have run on four streams of their own."""

MODULES = ("core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj")
"""Megatron's names of what selective recomputation repeats."""


def _select(row: Row, fields: dict[str, Any]) -> None:
    """The modules that a list names, and those that MindSpeed has options of their own for."""
    words = re.findall(r"[a-z_]+", row.text("recompute"))
    chosen = [name for name in MODULES if name in words] if fields.pop("selected", False) else []
    chosen.extend(fields.pop("drops", ()))
    if chosen and fields.get("recompute", "none") in ("none", "selective"):
        fields.update(recompute="selective", recompute_modules=tuple(chosen))


def _bridge(fields: dict[str, Any], habits: dict[str, str]) -> None:
    """What the performance recipes of Megatron-Bridge and NeMo take for granted."""
    if not fields.pop("narrow_gather", False):
        return
    fields.setdefault("gradients_dtype", "bf16")
    fields.setdefault("reduction_dtype", "bf16")
    if fields.get("precision", "").startswith("fp8"):
        fields.setdefault("fp8_param_gather", True)
        habits.setdefault("weight_transposes", "false")


def _engine(row: Row, runtime: str) -> str:
    """The Trainer's engine: none on one device, FSDP1 through accelerate, or DeepSpeed.

    Qwen's script for a quantised base on one device runs under DeepSpeed's stage 2
    (``finetune_qlora_single_gpu.sh``), its others there do not.
    """
    zero = row.text("zero")
    if runtime != "accelerate":
        return runtime
    quantised = "(+deepspeed)" in row.text("framework") and "gptq" in row.text("quant")
    if "deepspeed zero" in zero or quantised:
        return "deepspeed"
    return "accelerate" if "fsdp" in zero else "transformers"


def _precision(row: Row, runtime: str, recipe: str) -> str:
    """The recipe of the weights that train.

    Under mixed precision accelerate stores the flat parameters that train in fp32
    (``accelerator.py``, ``prepare_model``); on one device autocast leaves the weights as loaded.
    torchtitan quantises its fp32 weights for each product (torchao).
    """
    if runtime == "fsdp2" and recipe in ("fp8", "mxfp8", "nvfp4"):
        return f"{recipe}-amp"
    upcast = runtime == "accelerate" and "amp" in row.text("precision").replace("no amp", "")
    if not upcast or row.number("lora_rank"):
        return recipe
    return "fp16-amp" if "fp16" in row.text("precision") else "bf16-amp"


def _name_base(fields: dict[str, Any]) -> None:
    """The quantised base, from its format and what else says how its scales are stored."""
    double, groups = fields.pop("double_quant", False), fields.pop("gptq_groups", True)
    base = fields.get("lora_base")
    if base == "nf4" and double:
        fields["lora_base"] = "nf4-dq"
    if base == "gptq4-g128" and not groups:
        fields["lora_base"] = "gptq4"


def _loss(row: Row, fields: dict[str, Any]) -> dict[str, str]:
    """The loss, and what torch.compile fuses, by stack."""
    kernel = fields.pop("loss_kernel", "eager")
    held, narrow = fields.pop("held_logits", False), fields.pop("narrow_logits", False)
    compiled_loss = fields.pop("compiled_loss", False)
    compiled = row.flag("compile", default=False)
    runtime = fields["runtime"]
    if runtime in ("transformers", "accelerate", "deepspeed"):
        return {"loss": loss_rule(kernel=kernel, held=held, narrow=narrow)}
    if runtime == "litgpt" and row.number("lora_rank"):
        return {"loss": "upcast-in-chunks"}
    if runtime == "torchtune" and compiled:
        return {"loss": "chunked-compiled"}
    if runtime != "fsdp2":
        return {}
    fused = {"norm": "fused", "activation": "fused"} if compiled else {}
    return {**fused, "loss": "compiled" if compiled and compiled_loss else "eager"}


def loss_rule(*, kernel: str, held: bool, narrow: bool) -> str:
    """The loss of Hugging Face modules.

    Args:
        kernel: ``eager``, ``in-place`` (Unsloth's) or ``linear`` (Liger's).
        held: the caller still refers to the 16-bit logits (transformers 4.46 to 4.48).
        narrow: the model does not upcast its logits (GPT-BigCode).
    """
    if kernel == "linear":
        return "linear"
    if narrow:
        base = "narrow-in-place" if kernel == "in-place" else "eager-narrow"
    else:
        base = "upcast-in-place" if kernel == "in-place" else "eager"
    return f"{base}-held" if held else base
