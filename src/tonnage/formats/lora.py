"""Adapters as launch files name them (PEFT's ``LoraConfig``) -> fields of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.formats.draft import Draft
from tonnage.plan import LoraTarget

TARGETS: dict[str, tuple[LoraTarget, ...]] = {
    "q_proj": ("q_proj",),
    "k_proj": ("k_proj",),
    "v_proj": ("v_proj",),
    "o_proj": ("o_proj",),
    "q": ("q_proj",),
    "k": ("k_proj",),
    "v": ("v_proj",),
    "o": ("o_proj",),
    "query": ("q_proj",),
    "key": ("k_proj",),
    "value": ("v_proj",),
    "output_proj": ("o_proj",),
    "out_proj": ("o_proj",),
    "gate_proj": ("gate_proj",),
    "up_proj": ("up_proj",),
    "down_proj": ("down_proj",),
    "w1": ("gate_proj",),
    "w2": ("down_proj",),
    "w3": ("up_proj",),
    "fc1": ("gate_proj", "up_proj"),
    "fc2": ("down_proj",),
    "query_key_value": ("qkv_proj",),
    "qkv_proj": ("qkv_proj",),
    "Wqkv": ("qkv_proj",),
    "c_attn": ("qkv_proj",),
    "linear_qkv": ("qkv_proj",),
    "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
    "attention_qkv": ("qkv_proj",),
    "attention_dense": ("o_proj",),
    "mlp_fc1": ("gate_proj", "up_proj"),
    "mlp_fc2": ("down_proj",),
    "attention": ("qkv_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "lm_head": ("lm_head",),
    "all-linear": ("all",),
    "all": ("all",),
}
"""Linear layers by the names of PEFT, NeMo, Megatron-Core and the models' own classes."""


def targets(words: Iterable[str]) -> tuple[tuple[LoraTarget, ...], list[str]]:
    """The layers that the words name, and the words that name none."""
    found: list[LoraTarget] = []
    unknown = []
    for word in words:
        named = TARGETS.get(word) or TARGETS.get(word.split(".")[-1])
        if named is None:
            unknown.append(word)
        else:
            found.extend(named)
    return tuple(dict.fromkeys(found)), unknown


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
