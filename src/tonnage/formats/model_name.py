"""Names of models in launch files -> names of the catalog, where they differ in training only.

Fine-tuning for chat, quantising a checkpoint and publishing it again leave a model's shape
alone, and their marks in its name with it: ``meta-llama/Meta-Llama-3-8B-Instruct`` and
``unsloth/llama-3-8b-bnb-4bit`` have the shape of ``llama-3-8b``.
"""

from __future__ import annotations

import os
import re

from tonnage.arch import catalog

_MARKS = frozenset(
    """
    instruct it chat hf base pt sft dpo meta bnb 4bit 8bit unsloth awq gptq int4 int8 fp8 bf16
    dynamic prequantized quantized text
    """.split()
)
_DATE = re.compile(r"[0-9]{4}")
_SAME = {
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
    "vicuna-7b-v1.5": "llama-2-7b",
    "vicuna-13b-v1.5": "llama-2-13b",
    **{f"qwen2-{size}": f"qwen2.5-{size}" for size in ("0.5b", "1.5b", "7b", "72b")},
    **{
        f"qwen2.5-coder-{size}": f"qwen2.5-{size}"
        for size in ("0.5b", "1.5b", "3b", "7b", "14b", "32b")
    },
    **{f"qwen2.5-math-{size}": f"qwen2.5-{size}" for size in ("1.5b", "7b", "72b")},
    **{f"deepseek-r1-distill-qwen-{size}": f"qwen2.5-{size}" for size in ("7b", "14b", "32b")},
    "qwq-32b": "qwen2.5-32b",
    "phi-3-mini-128k": "phi-3-mini",
    "phi-3.5-mini": "phi-3-mini",
    "zephyr-7b-beta": "mistral-7b",
    "codegemma-7b": "gemma-7b",
    "codegemma-2b": "gemma-2b",
}
"""Models that were trained anew in an older one's shape: their config.json agree in every key
that decides the size of a weight (context and rotary base may differ)."""


def catalog_name(model: str) -> str | None:
    """The catalog's name of a model that a launch file names; None: it is in no catalog.

    Args:
        model: a hub name, or the folder of a checkpoint.
    """
    exact = catalog.find(model)
    if exact is not None:
        return exact.name
    if os.path.exists(model):
        return None
    wanted = _shape(model)
    wanted = _SAME.get(wanted, wanted)
    for entry in catalog.entries().values():
        if wanted in (entry.name, _shape(entry.hub_name or entry.name)):
            return entry.name
    return None


def _shape(model: str) -> str:
    """The last part of a name without the marks of tuning, dates and formats."""
    last = model.rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")[:100]
    words = last.split("-")
    kept = [w for w in words if w not in _MARKS and not (_DATE.fullmatch(w) and w != words[0])]
    return "-".join(kept)
