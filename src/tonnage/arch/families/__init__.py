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
    granite_hybrid,
    jamba,
    kimi_linear,
    lfm2,
    llama,
    mamba,
    minimax_01,
    mistral,
    nemotron_h,
    opt,
    qwen,
    qwen_next,
)
from tonnage.arch.keys import Keys

Reader: TypeAlias = Callable[[Keys], Architecture]
"""Reads a config of one family; the name and the source are the caller's to add."""

FAMILIES: Final[Mapping[str, Reader]] = {
    "bamba": granite_hybrid.read_bamba,
    "deepseek_v2": deepseek.read_deepseek_v2,
    "deepseek_v3": deepseek.read_deepseek_v3,
    "falcon_mamba": mamba.read_falcon_mamba,
    "gemma": gemma.read_gemma,
    "gemma2": gemma.read_gemma2,
    "gemma3": gemma3.read,
    "gemma3_text": gemma.read_gemma3_text,
    "gpt2": gpt2.read,
    "gpt_neox": gpt_neox.read,
    "granitemoehybrid": granite_hybrid.read_granite,
    "jamba": jamba.read,
    "kimi_linear": kimi_linear.read,
    "lfm2": lfm2.read_lfm2,
    "lfm2_moe": lfm2.read_lfm2_moe,
    "llama": llama.read,
    "mamba": mamba.read_mamba,
    "mamba2": mamba.read_mamba2,
    "minimax": minimax_01.read,
    "mistral": mistral.read_mistral,
    "mixtral": mistral.read_mixtral,
    "nemotron_h": nemotron_h.read,
    "opt": opt.read,
    "qwen2": qwen.read_qwen2,
    "qwen2_moe": qwen.read_qwen2_moe,
    "qwen3": qwen.read_qwen3,
    "qwen3_5_moe_text": qwen_next.read_qwen3_5_moe_text,
    "qwen3_5_text": qwen_next.read_qwen3_5_text,
    "qwen3_moe": qwen.read_qwen3_moe,
    "qwen3_next": qwen_next.read_qwen3_next,
}
