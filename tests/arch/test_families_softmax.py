"""The facts that distinguish the newer softmax-attention families from the next."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import (
    RMSNORM,
    Architecture,
    Attention,
    CompressedAttention,
    Layer,
    MoE,
    catalog,
    load,
    read_config,
)
from tonnage.arch.mixer import LatentAttention
from tonnage.errors import InputError, NotModelledError
from tonnage.ledger import parameters

transformers = pytest.importorskip("transformers")


def variant(name: str, **changes: Any) -> Architecture:
    config = {**catalog.entries()[name].config, **changes}
    return read_config({k: v for k, v in config.items() if v is not ...}, name=name)


def inside(name: str, **changes: Any) -> Architecture:
    text = catalog.entries()[name].config["text_config"]
    assert isinstance(text, dict)
    return variant(name, text_config={**text, **changes})


def attention(layer: Layer) -> Attention:
    assert isinstance(layer.mixer, Attention)
    return layer.mixer


def experts(layer: Layer) -> MoE:
    assert isinstance(layer.mlp, MoE)
    return layer.mlp


def test_llama4_turns_heads_inside_chunks_and_sees_all_elsewhere() -> None:
    scout = load("llama-4-scout")
    mixers = [attention(layer) for layer in scout.layers]
    assert [mixer.rope for mixer in mixers[:5]] == [True, True, True, False, True]
    assert [mixer.chunk for mixer in mixers[:5]] == [8192, 8192, 8192, None, 8192]
    assert mixers[0].qk_norm is not None
    assert not mixers[0].qk_norm.weight
    assert mixers[3].qk_norm is None
    assert all(isinstance(layer.mlp, MoE) for layer in scout.layers)
    maverick = load("llama-4-maverick")
    assert [isinstance(layer.mlp, MoE) for layer in maverick.layers[:4]] == [False, True] * 2
    assert experts(maverick.layers[1]).shared == experts(maverick.layers[1]).expert


def test_gpt_oss_has_sinks_and_windows_on_every_other_layer() -> None:
    oss = load("gpt-oss-120b")
    assert [attention(layer).window for layer in oss.layers[:4]] == [128, None] * 2
    assert all(attention(layer).sinks for layer in oss.layers)
    assert experts(oss.layers[0]).router_bias
    assert experts(oss.layers[0]).expert.bias


def test_command_r_normalises_each_head_by_itself_and_r7b_has_no_position_where_it_sees_all() -> (
    None
):
    assert attention(load("command-r-plus-104b").layers[0]).qk_norm_over == "heads"
    small = load("command-r7b")
    assert [attention(layer).rope for layer in small.layers[:4]] == [True, True, True, False]
    assert [attention(layer).window for layer in small.layers[:4]] == [4096, 4096, 4096, None]
    assert small.layers[0].parallel
    assert small.layers[0].mlp_norm is None


def test_gemma4_has_heads_by_kind_of_layer() -> None:
    gemma = load("gemma-4-26b-a4b")
    local, everywhere = attention(gemma.layers[0]), attention(gemma.layers[5])
    assert (local.head_dim, local.kv_heads, local.window) == (256, 8, 1024)
    assert (everywhere.head_dim, everywhere.kv_heads, everywhere.window) == (512, 2, None)
    assert everywhere.keys_as_values
    assert not local.keys_as_values
    moe = experts(gemma.layers[0])
    assert moe.shared is not None
    assert moe.shared.intermediate == 2112
    assert moe.input_norm == moe.output_norm == moe.shared_output_norm == RMSNORM


def test_the_last_layers_of_a_small_gemma4_share_keys_and_may_be_wider() -> None:
    small = inside(
        "gemma-4-26b-a4b",
        enable_moe_block=False,
        num_kv_shared_layers=12,
        hidden_size_per_layer_input=256,
        use_double_wide_mlp=True,
    )
    shared = [attention(layer).shares_kv for layer in small.layers]
    assert shared == [False] * 18 + [True] * 12
    assert small.per_layer_vocab == 262_144
    assert small.layers[0].per_layer_input == 256
    assert small.layers[-1].mlp is not None
    assert small.layers[-1].mlp.intermediate == 2 * small.layers[0].mlp.intermediate  # type: ignore[union-attr]


def test_shared_keys_need_an_owner_of_their_kind() -> None:
    with pytest.raises(NotModelledError, match="num_kv_shared_layers"):
        inside("gemma-4-26b-a4b", num_kv_shared_layers=26)


def test_glm_5_2_takes_the_pick_of_the_layer_before() -> None:
    glm = load("glm-5.2")
    mixers = [layer.mixer for layer in glm.layers]
    assert all(isinstance(mixer, LatentAttention) and mixer.top_k == 2048 for mixer in mixers)
    picks = [getattr(mixer, "indexer", None) is not None for mixer in mixers]
    assert picks[:8] == [True, True, True, False, False, False, True, False]
    assert sum(picks) == 21
    assert all(getattr(layer.mixer, "indexer", None) for layer in load("glm-5").layers)


def test_deepseek_v4_compresses_by_layer() -> None:
    ratios = [
        layer.mixer.ratio
        for layer in load("deepseek-v4-flash").layers
        if isinstance(layer.mixer, CompressedAttention)
    ]
    assert ratios[:6] == [None, None, 4, 128, 4, 128]
    pro = load("deepseek-v4-pro")
    assert pro.streams == pro.layers[0].streams == 4
    assert parameters(pro).mtp is None  # how its predictor joins four streams is not published


def test_minimax_m3_picks_blocks() -> None:
    m3 = load("minimax-m3")
    assert attention(m3.layers[0]).indexer is None
    assert attention(m3.layers[3]).top_k == 16 * 128
    assert not isinstance(m3.layers[0].mlp, MoE)


def test_mimo_v2_has_narrow_values_and_predictors_of_a_third_of_a_billion() -> None:
    """arXiv 2601.02780, section 2.3: 0.33B a predictor, with a window and a dense MLP."""
    mimo = load("mimo-v2-flash")
    full, sliding = attention(mimo.layers[0]), attention(mimo.layers[1])
    assert (full.head_dim, full.value_width) == (192, 128)
    assert (full.kv_heads, full.sinks, full.window) == (4, False, None)
    assert (sliding.kv_heads, sliding.sinks, sliding.window) == (8, True, 129)
    one = variant("mimo-v2-flash", num_nextn_predict_layers=1)
    assert parameters(one).mtp == pytest.approx(0.33e9, rel=0.01)


def test_step_gates_each_head_and_may_have_more_of_them_in_windows() -> None:
    step = variant("step-3.7-flash", attention_other_setting={"num_attention_heads": 96})
    full, sliding = attention(step.layers[0]), attention(step.layers[1])
    assert full.gate == sliding.gate == "head"
    assert (full.heads, sliding.heads) == (64, 96)
    assert sliding.window == 512


def test_olmo2_puts_its_norms_behind_the_parts() -> None:
    layer = load("olmo-2-7b").layers[0]
    assert layer.mixer_norm is None
    assert layer.mixer_output_norm == layer.mlp_output_norm == RMSNORM
    assert attention(layer).qk_norm_over == "projection"


def test_t5_has_one_table_of_biases_a_side() -> None:
    t5 = load("t5-small")
    assert [attention(layer).relative_buckets for layer in t5.layers] == [32, 0, 0, 0, 0, 0]
    assert [attention(layer).relative_buckets for layer in t5.encoder] == [32, 0, 0, 0, 0, 0]
    assert not attention(t5.encoder[0]).causal
    assert t5.layers[0].cross is not None
    assert t5.layers[0].cross.cross


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("bert-base", {"architectures": ["BertModel"]}, "config.architectures"),
        ("bert-base", {"tie_word_embeddings": False}, "config.tie_word_embeddings"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "config.apply_residual"),
        ("deepseek-v4-pro", {"num_key_value_heads": 2}, "config.num_key_value_heads"),
        ("deepseek-v4-pro", {"compress_ratios": [8] * 62}, "config.compress_ratios"),
        ("gemma-4-26b-a4b", {"audio_config": {}}, "config.audio_config"),
        ("llama-4-scout", {"vision_config": {"model_type": "x"}}, "config.vision_config.model"),
        ("mimo-v2-flash", {"swa_num_key_value_heads": 4}, "config.swa_num_key_value_heads"),
        ("mpt-7b", {"no_bias": False}, "config.no_bias"),
        ("t5-small", {"tie_word_embeddings": False}, "config.tie_word_embeddings"),
        ("t5-small", {"feed_forward_proj": "gated-silu"}, "config.feed_forward_proj"),
        ("vit-base-16", {"architectures": ["ViTModel"]}, "config.architectures"),
    ],
)
def test_what_makes_sense_and_is_not_modelled(
    name: str, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(NotModelledError) as caught:
        variant(name, **changes)
    assert caught.value.field.startswith(field)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("falcon-40b", {"num_kv_heads": 7}, "7 does not divide the 128 attention heads"),
        ("glm-5", {"q_lora_rank": None}, "leaves the indexer without its input"),
        ("glm-5", {"index_topk": ...}, "config.index_topk: nothing is given"),
        ("deepseek-v4-pro", {"o_groups": 7}, "7 does not divide the 128 attention heads"),
        ("deepseek-v4-pro", {"compress_ratios": [4]}, "a list of 1 does not match"),
        ("minimax-m3", {"moe_layer_freq": [2] * 60}, "2 is neither 0 nor 1"),
        ("smollm3-3b", {"no_rope_layers": [1, 0]}, "a list of 2 does not match"),
        ("step-3.7-flash", {"moe_layers_enum": "3,x"}, "is not a list of layers"),
        ("vit-base-16", {"patch_size": 15}, "is not a whole number of patches"),
    ],
)
def test_contradictions(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        variant(name, **changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name", ["command-r7b", "gpt-oss-20b", "smollm3-3b", "gemma-4-26b-a4b", "mimo-v2-flash"]
)
def test_kinds_of_layers_equal_transformers(name: str) -> None:
    config = dict(catalog.entries()[name].config)
    text = config.pop("text_config", config)
    assert isinstance(text, dict)
    given = {key: value for key, value in text.items() if key not in ("model_type", "layer_types")}
    if name == "mimo-v2-flash":
        given.pop("hybrid_layer_pattern")
    theirs = transformers.AutoConfig.for_model(text["model_type"], **given)
    ours = read_config({"model_type": text["model_type"], **given}, name=name)
    slides = [kind == "sliding_attention" for kind in theirs.layer_types]
    assert [attention(layer).window is not None for layer in ours.layers] == slides
