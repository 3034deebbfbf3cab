"""Adapters as launch files name them (PEFT's ``LoraConfig``) -> fields of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.formats.draft import Draft
from tonnage.formats.hugging_face.adapters import read_targets
from tonnage.plan import LoraTarget

FUSED: dict[str, tuple[LoraTarget, ...]] = {
    "linear_qkv": ("qkv_proj",),
    "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
    "attention_qkv": ("qkv_proj",),
    "attention_dense": ("o_proj",),
    "mlp_fc1": ("gate_proj", "up_proj"),
    "mlp_fc2": ("down_proj",),
    "attention": ("qkv_proj", "o_proj"),
}
"""Linear layers by the names of Megatron-Core and NeMo; the others are those of PEFT."""


def targets(words: Iterable[str]) -> tuple[tuple[LoraTarget, ...], list[str]]:
    """The layers that the words name, and the words that name none."""
    words = [word.split(".")[-1] for word in words]
    fused = [target for word in words for target in FUSED.get(word, ())]
    rest = read_targets([word for word in words if word not in FUSED])
    return tuple(dict.fromkeys((*fused, *rest.known))), list(rest.unknown)


def read_peft(draft: Draft, at: str) -> None:
    """A section in PEFT's names, where the file has one.

    Args:
        draft: the launch.
        at: the path of the section.
    """
    fields = draft.fields
    if not fields.under(at):
        return
    draft.whole("lora_rank", f"{at}.r")
    draft.put("lora_dropout", fields.number(f"{at}.lora_dropout"), f"{at}.lora_dropout")
    found, unknown = targets(fields.words(f"{at}.target_modules"))
    if found:
        draft.put("lora_targets", found, f"{at}.target_modules")
    if unknown:
        fields.leave(f"{at}.target_modules", f"{', '.join(unknown)} name no layer here")
    fields.ignore(f"{at}.lora_alpha", f"{at}.peft_type", f"{at}.task_type", f"{at}.bias")
    fields.ignore(f"{at}.inference_mode", f"{at}.init_lora_weights")
