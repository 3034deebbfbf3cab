"""The models that torchtitan has by name and flavor, as configs that arch reads.

Facts of ``torchtitan/models/*/__init__.py`` (https://github.com/pytorch/torchtitan, 0.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.arch import Architecture, catalog, load, read_config

PUBLISHED: Mapping[str, Mapping[str, str]] = {
    "llama3": {"8b": "llama-3.1-8b", "70b": "llama-3.1-70b", "405b": "llama-3.1-405b"},
    "llama4": {"17bx16e": "llama-4-scout", "17bx128e": "llama-4-maverick"},
    "deepseek_v3": {"16b": "deepseek-v2-lite", "236b": "deepseek-v2", "671b": "deepseek-v3"},
    "qwen3": {
        **{size: f"qwen3-{size}" for size in ("0.6b", "1.7b", "4b", "8b", "14b", "32b")},
        **{size: f"qwen3-{size}" for size in ("30b-a3b", "235b-a22b")},
    },
    "gpt_oss": {"20b": "gpt-oss-20b", "120b": "gpt-oss-120b"},
}
"""Flavors that are a published model: its name in the catalog."""

OTHER_NAMES = {
    "llama3_ft": "llama3",
    "llama3_simple_fsdp": "llama3",
    "simple_fsdp.llama3": "llama3",
}
_VARIANTS = ("_flex_attn", "_varlen_attn", "_flex", "_varlen", "_irope", "_non_fused_qkv")

_DEBUG: Mapping[str, Mapping[str, Any]] = {
    "llama3": {
        "model_type": "llama",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 16,
        "intermediate_size": 768,
        "vocab_size": 2048,
        "max_position_embeddings": 131_072,
    },
    "qwen3": {
        "model_type": "qwen3",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "vocab_size": 2048,
        "tie_word_embeddings": True,
        "max_position_embeddings": 4096,
    },
    "qwen3 moe": {
        "model_type": "qwen3_moe",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "moe_intermediate_size": 768,
        "num_experts": 64,
        "num_experts_per_tok": 8,
        "vocab_size": 2048,
        "max_position_embeddings": 4096,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "first_k_dense_replace": 1,
        "num_attention_heads": 16,
        "intermediate_size": 1024,
        "moe_intermediate_size": 256,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "num_experts_per_tok": 3,
        "q_lora_rank": None,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 2048,
        "max_position_embeddings": 4096,
    },
    "llama4": {
        "model_type": "llama4_text",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 512,
        "intermediate_size_mlp": 768,
        "num_local_experts": 8,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "vocab_size": 2048,
        "max_position_embeddings": 1_048_576,
    },
}


def find(name: str, flavor: str) -> Architecture | None:
    """The model of a name and a flavor; None: it is not known, or no language model."""
    name = OTHER_NAMES.get(name, name)
    plain = flavor.lower()
    for variant in _VARIANTS:
        plain = plain.removesuffix(variant)
    published = PUBLISHED.get(name, {}).get(plain)
    if name == "llama4":
        return _llama4(published, chunked=flavor.lower().endswith("_irope"))
    if published is not None:
        return load(published)
    debug = _DEBUG.get(f"{name} moe" if plain == "debugmodel_moe" else name)
    if not plain.startswith("debugmodel") or debug is None:
        return None
    return read_config(debug, name=f"{name}-{flavor}", source="torchtitan")


def _llama4(published: str | None, *, chunked: bool) -> Architecture:
    """The text part; without ``irope`` every layer turns positions and sees all of them."""
    text: dict[str, Any] = dict(_DEBUG["llama4"])
    entry = catalog.find(published or "")
    if entry is not None:
        part = entry.config.get("text_config", entry.config)
        assert isinstance(part, Mapping)
        text = {**part, "model_type": "llama4_text"}
    if not chunked:
        turned = {"no_rope_layers": [1] * int(text["num_hidden_layers"])}
        text.update(turned, attention_chunk_size=None, use_qk_norm=False)
        text.pop("layer_types", None)
    return read_config(text, name=published or "llama4-debugmodel", source="torchtitan")
