"""The facts that distinguish one family from the next."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import (
    CENTRED_RMSNORM,
    LAYERNORM,
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    LatentAttention,
    MoE,
    catalog,
    load,
    read_config,
)


def variant(name: str, **changes: Any) -> Architecture:
    return read_config({**catalog.entries()[name].config, **changes}, name=name)


def attention(architecture: Architecture, layer: int = 0) -> Attention:
    mixer = architecture.layers[layer].mixer
    assert isinstance(mixer, Attention)
    return mixer


def mixture(architecture: Architecture, layer: int = -1) -> MoE:
    mlp = architecture.layers[layer].mlp
    assert isinstance(mlp, MoE)
    return mlp


def windows(architecture: Architecture) -> list[int | None]:
    return [attention(architecture, i).window for i in range(len(architecture.layers))]


def test_gpt2_has_learnt_positions_biases_and_dropout() -> None:
    gpt2 = load("gpt2")
    layer = gpt2.layers[0]
    assert gpt2.learned_positions == gpt2.max_positions == 1024
    assert gpt2.final_norm == layer.mixer_norm == layer.mlp_norm == LAYERNORM
    assert attention(gpt2) == Attention(
        heads=12,
        kv_heads=12,
        head_dim=64,
        qkv_bias=True,
        output_bias=True,
        rope=False,
        one_projection=True,
        softmax_fp32=False,
        dropout=0.1,
    )
    assert layer.mlp == MLP(intermediate=3072, gated=False, activation="gelu_new", bias=True)
    assert layer.dropout == gpt2.embedding_dropout == 0.1


def test_neox_is_parallel_and_turns_a_quarter_of_each_head() -> None:
    neox = load("gpt-neox-20b")
    assert neox.layers[0].parallel
    assert neox.layers[0].mlp_norm == LAYERNORM
    assert attention(neox).rope_fraction == 0.25
    written_since = variant("gpt-neox-20b", rope_parameters={"partial_rotary_factor": 0.5})
    assert attention(written_since).rope_fraction == 0.5


def test_opt_keeps_two_more_positions_and_may_project_its_embedding() -> None:
    assert load("opt-6.7b").learned_positions == 2050
    assert load("opt-6.7b").embedding_width is None
    assert variant("opt-6.7b", word_embed_proj_dim=512).embedding_width == 512


def test_llama_groups_queries() -> None:
    llama = load("llama-3.1-70b")
    assert attention(llama) == Attention(heads=64, kv_heads=8, head_dim=128)
    assert llama.layers[0].mlp == MLP(intermediate=28672, gated=True, activation="silu")
    assert not llama.tied_embeddings


def test_mistral_without_the_key_has_the_window_of_its_first_version() -> None:
    assert attention(load("mistral-7b")).window == 4096
    assert attention(variant("mistral-7b", sliding_window=None)).window is None
    config = dict(catalog.entries()["mistral-7b"].config)
    del config["sliding_window"]
    assert attention(read_config(config, name="x")).window == 4096
    assert attention(load("mixtral-8x7b")).window is None


def test_qwen2_has_biases_and_qwen3_has_norms() -> None:
    assert attention(load("qwen2.5-7b")).qkv_bias
    assert not attention(load("qwen2.5-7b")).output_bias
    assert attention(load("qwen3-8b")).qk_norm == RMSNORM
    assert attention(load("qwen3-8b")).qk_norm_over == "head"
    assert not attention(load("qwen3-8b")).qkv_bias


def test_qwen_slides_only_where_it_says_so() -> None:
    idle = variant("qwen2.5-7b", sliding_window=64, max_window_layers=26)
    assert set(windows(idle)) == {None}
    used = variant("qwen2.5-7b", sliding_window=64, max_window_layers=26, use_sliding_window=True)
    assert windows(used) == [None] * 26 + [64] * 2


def test_qwen2_moe_gates_its_shared_expert() -> None:
    moe = mixture(load("qwen1.5-moe-a2.7b"))
    assert (moe.experts, moe.top_k, moe.expert.intermediate) == (60, 4, 1408)
    assert moe.shared is not None
    assert moe.shared.intermediate == 5632
    assert moe.shared_gate
    assert mixture(load("qwen3-30b-a3b")).shared is None


def test_qwen_moe_may_route_every_other_layer() -> None:
    moe = variant("qwen3-30b-a3b", num_hidden_layers=8, decoder_sparse_step=2, mlp_only_layers=[3])
    routes = [isinstance(layer.mlp, MoE) for layer in moe.layers]
    assert routes == [False, True, False, False, False, True, False, True]


def test_a_model_whose_layers_all_route_needs_no_dense_width() -> None:
    config = dict(catalog.entries()["qwen3-30b-a3b"].config)
    del config["intermediate_size"]
    assert read_config(config, name="x").kinds() == load("qwen3-30b-a3b").kinds()


def test_gemma2_alternates_caps_and_has_four_norms() -> None:
    gemma = load("gemma-2-9b")
    layer = gemma.layers[0]
    assert windows(gemma)[:4] == [4096, None, 4096, None]
    assert attention(gemma).softcap
    assert gemma.logits_softcap
    assert gemma.tied_embeddings
    norms = {layer.mixer_norm, layer.mixer_output_norm, layer.mlp_norm, layer.mlp_output_norm}
    assert norms == {CENTRED_RMSNORM}
    bare = variant("gemma-2-9b", attn_logit_softcapping=None, final_logit_softcapping=None)
    assert not attention(bare).softcap
    assert not bare.logits_softcap


def test_gemma_says_gelu_and_means_its_tanh_form() -> None:
    config = {**catalog.entries()["gemma-2-9b"].config, "model_type": "gemma", "hidden_act": "gelu"}
    del config["hidden_activation"]
    mlp = read_config(config, name="x").layers[0].mlp
    assert isinstance(mlp, MLP)
    assert mlp.activation == "gelu_pytorch_tanh"


def test_gemma3_sees_everything_in_each_sixth_layer() -> None:
    gemma = load("gemma-3-27b")
    assert windows(gemma)[:7] == [1024] * 5 + [None, 1024]
    assert attention(gemma).qk_norm == CENTRED_RMSNORM
    assert not attention(gemma).softcap
    assert gemma.vocab == 262_208


def test_a_nearly_empty_text_config_means_the_class() -> None:
    """The shape of google/gemma-3-4b-pt's config.json on the hub."""
    gemma = variant(
        "gemma-3-27b",
        text_config={
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    )
    mixer = attention(gemma)
    assert (mixer.heads, mixer.kv_heads, mixer.head_dim) == (8, 4, 256)
    assert gemma.vocab == 262_208
    assert gemma.max_positions == 131_072


def test_gemma3_has_eyes() -> None:
    vision = load("gemma-3-27b").vision
    assert vision is not None
    assert vision.positions == 64**2
    assert vision.projector == ((1152, 5376), (1152,))
    mixer = vision.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert not mixer.causal
    assert not mixer.rope


def test_deepseek_v3_is_latent_with_dense_first_layers() -> None:
    deepseek = load("deepseek-v3")
    assert [isinstance(layer.mlp, MoE) for layer in deepseek.layers] == [False] * 3 + [True] * 58
    assert deepseek.layers[0].mixer == LatentAttention(
        heads=128,
        query_rank=1536,
        kv_rank=512,
        nope_head_dim=128,
        rope_head_dim=64,
        value_head_dim=128,
    )
    assert mixture(deepseek).shared == MLP(intermediate=2048, gated=True, activation="silu")
    assert deepseek.mtp_layers == 1


def test_deepseek_v2_lite_projects_its_queries_directly() -> None:
    lite = load("deepseek-v2-lite")
    mixer = lite.layers[0].mixer
    assert isinstance(mixer, LatentAttention)
    assert mixer.query_rank is None
    shared = mixture(lite).shared
    assert shared is not None
    assert shared.intermediate == 2 * 1408


def test_deepseek_may_skip_experts_and_have_none_that_are_shared() -> None:
    sparse = variant(
        "deepseek-v2-lite",
        num_hidden_layers=6,
        first_k_dense_replace=1,
        moe_layer_freq=2,
        n_shared_experts=None,
    )
    routes = [isinstance(layer.mlp, MoE) for layer in sparse.layers]
    assert routes == [False, False, True, False, True, False]
    assert mixture(sparse, 2).shared is None


@pytest.mark.parametrize("name", catalog.catalog_names())
def test_layers_of_a_kind_are_equal(name: str) -> None:
    architecture = load(name)
    assert sum(architecture.kinds().values()) == len(architecture.layers)
    assert len(architecture.kinds()) <= 4  # Jamba: two mixers, each with an MLP or with experts
