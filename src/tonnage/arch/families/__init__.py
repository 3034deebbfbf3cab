"""The lineages that are modelled, by the ``model_type`` of their config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tonnage.arch.architecture import Architecture
from tonnage.arch.families import (
    deepseek,
    gemma,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    mistral,
    opt,
    qwen,
)
from tonnage.arch.keys import Keys

Reader: TypeAlias = Callable[[Keys], Architecture]
"""Reads a config of one family; the name and the source are the caller's to add."""

FAMILIES: Final[Mapping[str, Reader]] = {
    "deepseek_v2": deepseek.read_deepseek_v2,
    "deepseek_v3": deepseek.read_deepseek_v3,
    "gemma": gemma.read_gemma,
    "gemma2": gemma.read_gemma2,
    "gemma3": gemma3.read,
    "gemma3_text": gemma.read_gemma3_text,
    "gpt2": gpt2.read,
    "gpt_neox": gpt_neox.read,
    "llama": llama.read,
    "mistral": mistral.read_mistral,
    "mixtral": mistral.read_mixtral,
    "opt": opt.read,
    "qwen2": qwen.read_qwen2,
    "qwen2_moe": qwen.read_qwen2_moe,
    "qwen3": qwen.read_qwen3,
    "qwen3_moe": qwen.read_qwen3_moe,
}
