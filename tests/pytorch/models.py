"""Small models of every kind that the dry run is held to."""

from __future__ import annotations

from typing import Any

VOCAB = 97

GROUPED: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 8,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 40,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
}
MODELS: dict[str, dict[str, Any]] = {
    # Grouped queries, gated, untied.
    "llama": {"model_type": "llama", **GROUPED},
    # As many key as query heads, and tied.
    "llama_mha": {
        "model_type": "llama",
        **GROUPED,
        "num_key_value_heads": 8,
        "tie_word_embeddings": True,
    },
    # LayerNorm, plain MLP, biases, learnt positions, dropout, one projection.
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 64,
        "vocab_size": VOCAB,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    # Norms of queries and keys.
    "qwen3": {"model_type": "qwen3", **GROUPED, "head_dim": 16},
    # Windows, four norms a layer, soft caps, tied.
    "gemma2": {"model_type": "gemma2", **GROUPED, "head_dim": 16, "sliding_window": 32},
    # A mixture of experts.
    "mixtral": {
        "model_type": "mixtral",
        **GROUPED,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    # Latent attention, a dense layer, then shared and routed experts.
    "deepseek_v3": {"model_type": "deepseek_v3", **GROUPED, **LATENT},
    # Values narrower than keys.
    "deepseek_v3_wide_keys": {
        "model_type": "deepseek_v3",
        **GROUPED,
        **LATENT,
        "qk_nope_head_dim": 16,
    },
}
