"""Names of adapted layers and of modules trained whole, in the words of PEFT's users.

A target is matched by the last part of its name, as PEFT does; of a regular expression only
the alternatives in it are read, and it is never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tonnage.plan import LoraTarget

TARGETS: dict[str, tuple[LoraTarget, ...]] = {
    "q_proj": ("q_proj",),
    "k_proj": ("k_proj",),
    "v_proj": ("v_proj",),
    "o_proj": ("o_proj",),
    "out_proj": ("o_proj",),
    "output_proj": ("o_proj",),
    "attn_out": ("o_proj",),
    "dense": ("o_proj",),
    "wo": ("o_proj",),
    "qkv_proj": ("qkv_proj",),
    "query_key_value": ("qkv_proj",),
    "wqkv": ("qkv_proj",),
    "c_attn": ("qkv_proj",),
    "gate_proj": ("gate_proj",),
    "up_proj": ("up_proj",),
    "down_proj": ("down_proj",),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "c_fc": ("up_proj",),
    "fc1": ("up_proj",),
    "fc2": ("down_proj",),
    "fc_in": ("up_proj",),
    "fc_out": ("down_proj",),
    "dense_h_to_4h": ("up_proj",),
    "dense_4h_to_h": ("down_proj",),
    "w1": ("gate_proj",),
    "w2": ("down_proj",),
    "w3": ("up_proj",),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "lm_head": ("lm_head",),
    "all": ("all",),
    "all-linear": ("all",),
    "all_linear": ("all",),
}
"""Names of linear layers in transformers' classes, and what they are called here."""

QWEN: dict[str, tuple[LoraTarget, ...]] = {"w1": ("up_proj",), "w2": ("gate_proj",)}
"""The same names in a Qwen of the first generation, which has no ``w3``."""

SAVED = {
    **dict.fromkeys(("embed_tokens", "wte", "embed_in", "word_embeddings"), "embedding"),
    **dict.fromkeys(("lm_head", "embed_out", "output"), "head"),
}
"""Modules that are trained whole, and what a plan calls them."""

LONGEST_PATTERN = 2_000


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The adapted layers.

    Attributes:
        known: targets of a plan, each once.
        unknown: names that stand for no layer that is known.
    """

    known: tuple[LoraTarget, ...]
    unknown: tuple[str, ...]


def read_targets(names: Sequence[str]) -> Targets:
    """The adapted layers of a list of names, or of one regular expression.

    ``c_proj`` ends both attention and MLP where a model has it (GPT-2, Qwen).
    """
    known: list[LoraTarget] = []
    inside = [name for name in names if not _in_experts(name)]
    unknown = [name for name in names if _in_experts(name)]
    words = [word for name in inside for word in _alternatives(name)]
    table = TARGETS if "w3" in words else {**TARGETS, **QWEN}
    for word in words:
        if word == "c_proj":
            known += ["o_proj", "down_proj"]
        elif word in table:
            known += table[word]
        else:
            unknown.append(word)
    if "all" in known:
        known = [target for target in known if target in ("all", "lm_head")]
    return Targets(known=tuple(dict.fromkeys(known)), unknown=tuple(dict.fromkeys(unknown)))


def _in_experts(name: str) -> bool:
    """A target inside some experts only, which one set of targets for all of them is not."""
    return "expert" in name.lower()


def _alternatives(name: str) -> list[str]:
    """The last parts that a name or an expression stands for: ``(q|k)_proj`` is two."""
    text = name.strip().rstrip("$").replace("\\.", ".")[-LONGEST_PATTERN:]
    group = re.search(r"\(([A-Za-z0-9_|:?]{1,400})\)([A-Za-z0-9_]{0,40})$", text)
    if group:
        words = group[1].removeprefix("?:").split("|")
        return [f"{word}{group[2]}".lower() for word in words if word]
    return [text.rsplit(".", 1)[-1].lower()]


def read_saved(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Modules trained whole beside the adapters: those that are modelled, and the rest."""
    known: list[str] = []
    unknown: list[str] = []
    for name in names:
        word = name.rsplit(".", 1)[-1].lower()
        (known if word in SAVED else unknown).append(SAVED.get(word, name))
    return tuple(dict.fromkeys(known)), tuple(unknown)
