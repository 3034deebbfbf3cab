"""Recurrent models and hybrids: which layer is what, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import (
    MLP,
    Architecture,
    Attention,
    GatedDelta,
    LatentAttention,
    Mamba,
    Mamba2,
    MoE,
    ShortConvolution,
    catalog,
    load,
    read_config,
)
from tonnage.errors import InputError, NotModelledError


def variant(name: str, **changes: Any) -> Architecture:
    return read_config({**catalog.entries()[name].config, **changes}, name=name)


def attending(architecture: Architecture) -> list[int]:
    kinds = (Attention, LatentAttention)
    return [i for i, layer in enumerate(architecture.layers) if isinstance(layer.mixer, kinds)]


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("qwen3-next-80b-a3b", [*range(3, 48, 4)]),
        ("qwen3.5-35b-a3b", [*range(3, 40, 4)]),
        ("kimi-linear-48b-a3b", [3, 7, 11, 15, 19, 23, 26]),
        ("jamba-v0.1", [4, 12, 20, 28]),
        ("bamba-9b", [9, 18, 27]),
        ("granite-4.0-h-small", [5, 15, 25, 35]),
        ("lfm2-1.2b", [2, 5, 8, 10, 12, 14]),
        ("minimax-text-01", [*range(7, 80, 8)]),
        ("mamba-2.8b", []),
    ],
)
def test_these_layers_attend(name: str, layers: list[int]) -> None:
    assert attending(load(name)) == layers


def test_qwen3_next_gates_its_attention_and_its_shared_expert() -> None:
    layer = load("qwen3-next-80b-a3b").layers[3]
    assert isinstance(layer.mixer, Attention)
    assert isinstance(layer.mlp, MoE)
    assert (layer.mixer.gate, layer.mixer.rope_fraction) == ("element", 0.25)
    assert layer.mlp.shared_gate


def test_qwen3_5_has_eyes_and_predicts_further_tokens() -> None:
    model = load("qwen3.5-35b-a3b")
    assert model.vision is not None
    assert model.vision.frames == 2
    assert model.mtp_layers == 1
    assert model.mtp == model.layers[3]


def test_kimi_decays_each_channel_through_a_latent() -> None:
    mixer = load("kimi-linear-48b-a3b").layers[0].mixer
    assert isinstance(mixer, GatedDelta)
    assert (mixer.decay, mixer.gate_rank) == ("channel", 128)


def test_a_letter_of_nemotron_h_is_one_block() -> None:
    model = load("nemotron-3-nano-30b-a3b")
    first, second, _, _, _, sixth = model.layers[:6]
    assert isinstance(first.mixer, Mamba2)
    assert first.mlp is None
    assert second.mixer is None
    assert isinstance(second.mlp, MoE)
    assert second.mlp.expert == MLP(intermediate=1856, gated=False, activation="relu2")
    assert isinstance(sixth.mixer, Attention)
    assert not sixth.mixer.rope


def test_mamba_names_no_context() -> None:
    model = load("mamba-130m")
    assert model.max_positions is None
    assert model.layers[0].mixer == Mamba(inner=1536, state=16, step_rank=48, conv_kernel=4)


def test_granite_without_experts_has_its_shared_mlp() -> None:
    assert load("granite-4.0-h-micro").layers[0].mlp == MLP(
        intermediate=8192, gated=True, activation="silu"
    )


def test_lfm2_rounds_two_thirds_of_its_width() -> None:
    layer = load("lfm2-1.2b").layers[0]
    assert layer.mixer == ShortConvolution(channels=2048, conv_kernel=3)
    assert isinstance(layer.mlp, MLP)
    assert layer.mlp.intermediate == 8192


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("nemotron-h-56b", {"hybrid_override_pattern": "M?"}, "hybrid_override_pattern"),
        ("nemotron-h-56b", {"num_hidden_layers": 2}, "hybrid_override_pattern"),
        ("nemotron-h-56b", {"head_dim": 64}, "attention_head_dim"),
        ("nemotron-h-56b", {"n_groups": 3}, "n_groups"),
        ("mamba-130m", {"intermediate_size": 7}, "intermediate_size"),
        ("mamba-codestral-7b", {"num_heads": 64}, "num_heads"),
        ("granite-4.0-h-small", {"mamba_n_heads": 7}, "mamba_n_heads"),
        ("jamba-v0.1", {"attn_layer_offset": 8}, "attn_layer_offset"),
        ("lfm2-1.2b", {"block_ffn_dim_multiplier": "1"}, "block_ffn_dim_multiplier"),
        ("qwen3-next-80b-a3b", {"linear_num_value_heads": 24}, "linear_num_value_heads"),
        ("bamba-9b", {"attn_layer_indices": [32]}, "attn_layer_indices"),
    ],
)
def test_contradictions_name_the_key(name: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        variant(name, **changes)
    assert caught.value.field == f"config.{field}"


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("nemotron-h-56b", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("kimi-linear-48b-a3b", {"routed_expert_hidden_size": 3584}, "routed_expert_hidden_size"),
        ("kimi-linear-48b-a3b", {"mla_use_output_gate": True}, "mla_use_output_gate"),
        ("granite-4.0-h-small", {"position_embedding_type": "alibi"}, "position_embedding_type"),
        ("jamba-v0.1", {"sliding_window": 4096}, "sliding_window"),
        ("qwen3-next-80b-a3b", {"layer_types": ["mamba3"] * 48}, "layer_types"),
    ],
)
def test_variants_are_refused_by_name(name: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(NotModelledError) as caught:
        variant(name, **changes)
    assert caught.value.field == f"config.{field}"


def test_each_layer_of_kimi_is_of_one_kind() -> None:
    shape = {"num_heads": 1, "head_dim": 8, "short_conv_kernel_size": 4}
    kinds = {"full_attn_layers": [4], "kda_layers": [1, 2, 3, 4]}
    with pytest.raises(InputError, match="do not share out") as caught:
        variant("kimi-linear-48b-a3b", linear_attn_config={**shape, **kinds})
    assert caught.value.field == "config.linear_attn_config.kda_layers"
