"""Parameter counts of softmax-attention families beside those of the classes in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.witness import configs_text as text
from tests.witness import configs_vision as vision
from tests.witness.configs_text import FULL, SLIDING, SMALL, listed
from tests.witness.test_parameters import (
    FLAG,
    WIDTH,
    WINDOW,
    Config,
    agrees,
    build,
    grouped,
    routed,
)
from tonnage.arch import read_config
from tonnage.ledger import parameters

CASES = Path(__file__).parents[3] / "shared" / "cases" / "configs"
FILES = sorted(path for path in CASES.glob("*_config.json") if "hf_quant" not in path.name)


SOFTMAX: dict[str, st.SearchStrategy[Config]] = {
    "bert": text.bert(),
    "bloom": text.bloom(),
    "cohere": grouped("cohere", attention_bias=FLAG, use_qk_norm=FLAG),
    "cohere2": listed(grouped("cohere2", attention_bias=FLAG), FULL, SLIDING),
    "deepseek_ref": text.deepseek_v4("deepseek_ref"),
    "deepseek_v32": text.latent("deepseek_v32"),
    "deepseek_v4": text.deepseek_v4("deepseek_v4"),
    "falcon": text.falcon(),
    "gemma4": vision.gemma4(),
    "gemma4_text": text.gemma4_text(),
    "glm": grouped("glm", head_dim=WIDTH, attention_bias=FLAG, pad_token_id=st.just(0)),
    "glm4": grouped("glm4", head_dim=WIDTH, attention_bias=FLAG, pad_token_id=st.just(0)),
    "glm4_moe": routed(
        "glm4_moe",
        "n_routed_experts",
        attention_bias=FLAG,
        first_k_dense_replace=st.integers(0, 5),
        head_dim=WIDTH,
        moe_intermediate_size=WIDTH,
        n_shared_experts=SMALL,
        num_nextn_predict_layers=st.integers(0, 2),
        use_qk_norm=FLAG,
    ),
    "glm_moe_dsa": text.glm_moe_dsa(),
    "gpt_oss": listed(
        routed("gpt_oss", "num_local_experts", head_dim=WIDTH, attention_bias=FLAG), FULL, SLIDING
    ),
    "gptj": text.gptj(),
    "kimi_k2": text.deepseek_v3("kimi_k2"),
    "kimi_k25": vision.kimi_k25(),
    "llama4": vision.llama4(),
    "llama4_text": text.llama4_text(),
    "mimo": grouped("mimo", num_nextn_predict_layers=st.integers(0, 2)),
    "mimo_v2_flash": text.mimo_v2_flash(),
    "minimax_m2": routed("minimax_m2", "num_local_experts", head_dim=WIDTH),
    "minimax_m3": text.minimax_m3("minimax_m3"),
    "minimax_m3_vl": vision.minimax_m3_vl(),
    "minimax_m3_vl_text": text.minimax_m3("minimax_m3_vl_text"),
    "mpt": text.mpt(),
    "nemotron": grouped("nemotron", head_dim=WIDTH, attention_bias=FLAG, mlp_bias=FLAG),
    "olmo": grouped("olmo", attention_bias=FLAG, clip_qkv=st.none() | st.just(8.0)),
    "olmo2": grouped("olmo2", attention_bias=FLAG),
    "olmo3": listed(grouped("olmo3", attention_bias=FLAG), FULL, SLIDING),
    "olmoe": routed("olmoe", "num_experts", attention_bias=FLAG),
    "phi": grouped("phi", qk_layernorm=FLAG),
    "phi3": grouped("phi3", sliding_window=WINDOW, pad_token_id=st.just(0)),
    "qwen2_5_vl": vision.qwen2_5_vl(),
    "qwen2_vl": vision.qwen2_vl(),
    "qwen3_vl": vision.qwen3_vl("qwen3_vl"),
    "qwen3_vl_moe": vision.qwen3_vl("qwen3_vl_moe"),
    "smollm3": grouped("smollm3", attention_bias=FLAG, mlp_bias=FLAG, pad_token_id=st.just(0)),
    "starcoder2": grouped("starcoder2", use_bias=FLAG, sliding_window=WINDOW),
    "step3p7": vision.step3p7(),
    "t5": text.t5(),
    "vit": vision.vit(),
}


@pytest.mark.parametrize("family", SOFTMAX)
@settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_small_configs_equal_transformers(family: str, data: st.DataObject) -> None:
    config = data.draw(SOFTMAX[family])
    agrees(config, read_config(config, name=family))


@pytest.mark.parametrize(
    ("family", "absent"),
    [
        ("cohere", ("use_qk_norm", "tie_word_embeddings", "num_key_value_heads")),
        ("falcon", ("num_kv_heads", "ffn_hidden_size", "bias", "alibi", "multi_query")),
        ("falcon", ("new_decoder_architecture", "parallel_attn", "tie_word_embeddings")),
        ("gemma4_text", ("num_global_key_value_heads", "attention_k_eq_v", "tie_word_embeddings")),
        ("gemma4_text", ("hidden_size_per_layer_input", "vocab_size_per_layer_input", "head_dim")),
        ("glm", ("attention_bias", "head_dim", "tie_word_embeddings")),
        ("glm4_moe", ("attention_bias", "use_qk_norm", "num_nextn_predict_layers")),
        ("glm_moe_dsa", ("index_topk_freq", "index_skip_topk_offset", "indexer_types")),
        ("gpt_oss", ("attention_bias", "head_dim", "layer_types")),
        ("llama4_text", ("moe_layers", "interleave_moe_layer_step", "use_qk_norm")),
        ("mimo_v2_flash", ("head_dim", "v_head_dim", "layer_types", "mlp_layer_types")),
        ("minimax_m3_vl_text", ("layer_types", "mlp_layer_types", "head_dim")),
        ("nemotron", ("attention_bias", "mlp_bias", "tie_word_embeddings")),
        ("olmo", ("attention_bias", "clip_qkv", "num_key_value_heads")),
        ("phi", ("qk_layernorm", "num_key_value_heads", "tie_word_embeddings")),
        ("qwen3_vl", ("tie_word_embeddings",)),
        ("smollm3", ("num_key_value_heads", "attention_bias", "tie_word_embeddings")),
        ("starcoder2", ("use_bias", "tie_word_embeddings", "sliding_window")),
    ],
)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_absent_key_means_what_the_class_says(
    family: str, absent: tuple[str, ...], data: st.DataObject
) -> None:
    config = {k: v for k, v in data.draw(SOFTMAX[family]).items() if k not in absent}
    if family == "smollm3":  # the class's own default of 4 key and value heads
        config |= {"num_attention_heads": 8, "hidden_size": 64}
    agrees(config, read_config(config, name=family))


@pytest.mark.skipif(not FILES, reason=f"real configs are not at {CASES}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_files_equal_transformers(path: Path) -> None:
    config = json.loads(path.read_bytes())
    for key in ("architectures", "auto_map", "quantization_config"):
        config.pop(key, None)
    architecture = read_config(config, name=path.name)
    if config["model_type"] == "step3p7":
        # The file is flat, and the class reads text_config alone: nest it, and leave out
        # the tower that the class then adds by itself.
        inner = {**config, "n_routed_experts": config["num_experts"], "model_type": "step3p5"}
        model = build({"model_type": "step3p7", "text_config": inner, "vision_config": {}})
        parts = (model.model.language_model, model.lm_head)
        total = sum(weight.numel() for part in parts for weight in part.parameters())
        assert parameters(architecture).total == total
        return
    agrees(config, architecture)
