"""Parameters by part beside sums over the names of modules in transformers."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from tests.witness.test_parameters import build
from tonnage.arch import load, read_config
from tonnage.arch.catalog import entries
from tonnage.ledger import parameters

SMALL: dict[str, dict[str, Any]] = {
    "gemma4_text": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "global_head_dim": 16,
        "vocab_size": 64,
        "vocab_size_per_layer_input": 50,
        "hidden_size_per_layer_input": 6,
        "max_position_embeddings": 64,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 12,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    },
    "deepseek_v4": {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "q_lora_rank": 8,
        "o_lora_rank": 8,
        "o_groups": 2,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_topk": 4,
        "sliding_window": 8,
        "hc_mult": 4,
        "moe_intermediate_size": 12,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "vocab_size": 64,
        "max_position_embeddings": 64,
        "compress_ratios": [0, 4, 128],
    },
}


def part_of(name: str) -> str:
    """The part that a parameter of a decoder belongs to, by the names of its modules."""
    if "vision" in name or "multi_modal" in name or "visual" in name:
        return "vision"
    if "layers." not in name and ".h." not in name:
        head = re.search(r"lm_head|(^|\.)(norm|ln_f)\.|hc_head", name)
        return "head" if head else "embedding"
    if re.search(r"attn\.|attention\.", name):
        return "attention"
    if "experts." in name and "shared_expert" not in name:
        return "experts"
    if re.search(r"router\.|mlp\.gate\.", name):
        return "router"
    if "_hc." in name or "per_layer_input_gate" in name or "per_layer_projection" in name:
        return "connections"
    return "norms" if re.search(r"layernorm|norm|ln_\d", name) else "mlp"


@pytest.mark.parametrize(
    "name",
    ["gpt2", "llama-3.1-8b", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "deepseek-v2-lite", "gemma-2-9b"],
)
def test_parts_of_the_catalog_equal_sums_over_modules(name: str) -> None:
    agree(dict(entries()[name].config))


@pytest.mark.parametrize("family", SMALL)
def test_parts_of_small_models_equal_sums_over_modules(family: str) -> None:
    agree({"model_type": family, **SMALL[family]})


def agree(config: dict[str, Any]) -> None:
    sums: Counter[str] = Counter()
    for name, weight in build(config).named_parameters():
        sums[part_of(name)] += weight.numel()
    count = parameters(read_config(config, name="x"))
    parts = ("embedding", "attention", "mlp", "experts", "router", "norms", "connections", "head")
    assert {part: getattr(count, part) for part in parts} == {part: sums[part] for part in parts}
    assert count.total == sums.total()
    assert count.layers == count.total - count.embedding - count.head - count.vision


def test_predictors_are_counted_apart() -> None:
    """DeepSeek-V3's notes on its weights give 11.5B of its own, without embedding and head."""
    count = parameters(load("deepseek-v3"))
    assert count.mtp == pytest.approx(11.5e9, rel=0.01)


def test_a_model_without_predictors_has_none() -> None:
    assert parameters(load("llama-3.1-8b")).mtp == 0
