"""The ledger's FLOPs beside PyTorch's own counter on the classes of transformers.

Attention is ``eager`` and experts are looped over, so that every product is an ordinary
matrix product that the counter sees. Two products of the classes are none of the ledger's:
rotary embeddings multiply frequencies by positions (once a step), which is subtracted by
name, and eager attention multiplies the masked part of a window as well, so windows here
are no shorter than the sequence.
"""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import Architecture, read_config
from tonnage.ledger import sequence_flops, stage_ledgers, whole, whole_stage
from tonnage.plan import Plan

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

SEQ = 16

GROUPED = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 64,
}
MLA = {
    "num_key_value_heads": 6,
    "moe_intermediate_size": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 14,
    "n_group": 1,
    "topk_group": 1,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **GROUPED},
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 48,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 64,
        "vocab_size": 97,
    },
    "gpt_neox": {"model_type": "gpt_neox", **GROUPED},
    "qwen3": {"model_type": "qwen3", **GROUPED, "head_dim": 10},
    "gemma2": {"model_type": "gemma2", **GROUPED, "head_dim": 10, "sliding_window": SEQ},
    "mixtral": {
        "model_type": "mixtral",
        **GROUPED,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "qwen2_moe": {
        "model_type": "qwen2_moe",
        **GROUPED,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
    },
    "deepseek_v2": {"model_type": "deepseek_v2", **GROUPED, **MLA, "q_lora_rank": None},
    "deepseek_v3": {"model_type": "deepseek_v3", **GROUPED, **MLA, "q_lora_rank": 18},
}


def build(config: dict[str, Any]) -> Any:
    """The model in fp32 on the CPU: routing needs real scores."""
    keys = dict(config)
    settings = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
    settings._experts_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="eager")
    return model.train()


def counted(model: Any, sequences: int = 1, backward: bool = False) -> int:
    """FLOPs that the counter sees, without the rotary table."""
    tokens = torch.randint(0, 97, (sequences, SEQ))
    counter = flop_counter.FlopCounterMode(display=False)
    with counter:
        logits = model(tokens, use_cache=False).logits
        if backward:
            logits.sum().backward()
    tables = [n for n in counter.flop_counts if n.endswith("rotary_emb")]
    assert len(tables) <= 1
    rotary = sum(sum(counter.flop_counts[name].values()) for name in tables)
    return int(counter.get_total_flops()) - rotary


def forward(architecture: Architecture) -> int:
    """The ledger's forward FLOPs of one sequence, the whole square of attention."""
    run = whole(architecture, Plan(attention="eager"), seq=SEQ)
    model = sequence_flops(run, (whole_stage(architecture),), causal=False).model
    assert model % 3 == 0
    return int(model) // 3


@pytest.mark.parametrize("family", CONFIGS)
def test_forward(family: str) -> None:
    architecture = read_config(CONFIGS[family], name=family)
    assert counted(build(CONFIGS[family]), sequences=3) == 3 * forward(architecture)


@pytest.mark.parametrize("family", CONFIGS)
def test_forward_and_backward_are_three_times_forward(family: str) -> None:
    architecture = read_config(CONFIGS[family], name=family)
    assert counted(build(CONFIGS[family]), backward=True) == 3 * forward(architecture)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gemma2"])
def test_a_frozen_base_skips_the_gradients_of_its_weights(family: str) -> None:
    """What adapters leave of the base: everything frozen, the residual stream still flowing."""
    architecture = read_config(CONFIGS[family], name=family)
    model = build({**CONFIGS[family], "tie_word_embeddings": False})
    for weight in model.parameters():
        weight.requires_grad_(weight is model.get_input_embeddings().weight)
    plan = Plan(attention="eager", lora_rank=4)
    run = whole(architecture, plan, seq=SEQ)
    flops = sequence_flops(run, (whole_stage(architecture),), causal=False).model
    (ledger,) = stage_ledgers(run, (whole_stage(architecture),))
    adapters = sum(
        count * weight.numel for weight, count in ledger.weights() if "lora" in weight.name
    )
    assert adapters > 0
    assert counted(model, backward=True) == flops - 6 * adapters * SEQ


def test_a_window_shorter_than_the_sequence_is_not_multiplied_by_the_ledger() -> None:
    """Eager attention multiplies the masked scores too: ``4·a·d·s·(s - w)`` a layer more."""
    config = {**CONFIGS["gemma2"], "sliding_window": 4}
    architecture = read_config(config, name="gemma2")
    windowed = [
        layer.mixer for layer in architecture.layers if getattr(layer.mixer, "window", None)
    ]
    assert len(windowed) == 1
    masked = 4 * 6 * 10 * SEQ * (SEQ - 4)
    assert counted(build(config)) == forward(architecture) + masked
