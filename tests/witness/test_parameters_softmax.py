"""Parameter counts of softmax-attention families beside those of the classes in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.witness.test_parameters import (
    FLAG,
    LAYERS,
    POSITIONS,
    VOCAB,
    WIDTH,
    WINDOW,
    Config,
    build,
    grouped,
    routed,
)
from tonnage.arch import Architecture, read_config
from tonnage.ledger import parameters

CASES = Path(__file__).parents[3] / "shared" / "cases" / "configs"
FILES = sorted(path for path in CASES.glob("*_config.json") if "hf_quant" not in path.name)

SAME_CLASS = {
    "deepseek_ref": "deepseek_v4",
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "minimax_m3": "minimax_m3_vl_text",
}
"""Families without a class of their own in transformers, and the class that reads their keys."""

FULL, SLIDING = "full_attention", "sliding_attention"
SMALL = st.integers(1, 4)
FRACTION = st.sampled_from([0.0, 0.1])
IMAGE_TEXT = {"gemma4", "kimi_k25", "llama4", "minimax_m3_vl", "step3p7"}


def counted(config: Mapping[str, Any]) -> tuple[int, int]:
    """Parameters of the model that transformers builds, and those that one token meets."""
    keys = dict(config)
    keys["model_type"] = SAME_CLASS.get(keys["model_type"], keys["model_type"])
    model = build(keys)
    text = model.config.get_text_config()
    total = sum(weight.numel() for weight in model.parameters())
    routed = sum(weight.numel() for name, weight in model.named_parameters() if ".experts." in name)
    experts = next((getattr(text, key) for key in EXPERTS if getattr(text, key, None)), 1)
    chosen = next((getattr(text, key) for key in CHOSEN if getattr(text, key, None)), 1)
    return total, total - routed // experts * (experts - chosen)


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
CHOSEN = ("top_k_experts", "num_experts_per_tok")


def agrees(config: Mapping[str, Any], architecture: Architecture) -> None:
    count = parameters(architecture)
    assert (count.total, count.active) == counted(config)


def kinds(draw: st.DrawFn, config: Config, names: tuple[str, ...], key: str) -> Config:
    """The config with the kind of each layer, as files say it, or without a list."""
    count = config["num_hidden_layers"]
    types = draw(st.none() | st.lists(st.sampled_from(names), min_size=count, max_size=count))
    return config if types is None else {**config, key: types}


@st.composite
def listed(draw: st.DrawFn, base: st.SearchStrategy[Config], *names: str) -> Config:
    """A config whose ``layer_types`` may be given."""
    return kinds(draw, draw(base), names, "layer_types")


@st.composite
def gptj(draw: st.DrawFn) -> Config:
    heads = draw(SMALL)
    return {
        "model_type": "gptj",
        "n_embd": heads * draw(WIDTH),
        "n_head": heads,
        "n_layer": draw(LAYERS),
        "n_inner": draw(st.none() | WIDTH),
        "n_positions": draw(POSITIONS),
        "rotary_dim": 2,
        "vocab_size": draw(VOCAB),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def bloom(draw: st.DrawFn) -> Config:
    heads = draw(SMALL)
    return {
        "model_type": "bloom",
        draw(st.sampled_from(["hidden_size", "n_embed"])): heads * draw(WIDTH),
        "n_head": heads,
        "n_layer": draw(LAYERS),
        "vocab_size": draw(VOCAB),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def mpt(draw: st.DrawFn) -> Config:
    heads = draw(SMALL)
    return {
        "model_type": "mpt",
        "d_model": heads * draw(WIDTH),
        "n_heads": heads,
        "n_layers": draw(LAYERS),
        "max_seq_len": draw(POSITIONS),
        "vocab_size": draw(VOCAB),
        "attn_config": draw(st.none() | st.just({"clip_qkv": 6})),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def falcon(draw: st.DrawFn) -> Config:
    kv_heads = draw(SMALL)
    heads = kv_heads * draw(SMALL)
    return {
        "model_type": "falcon",
        "hidden_size": heads * draw(WIDTH),
        "num_attention_heads": heads,
        "num_kv_heads": draw(st.sampled_from([None, kv_heads])),
        "num_hidden_layers": draw(LAYERS),
        "vocab_size": draw(VOCAB),
        "new_decoder_architecture": draw(FLAG),
        "multi_query": draw(FLAG),
        "parallel_attn": draw(FLAG),
        "num_ln_in_parallel_attn": draw(st.sampled_from([None, 1, 2])),
        "ffn_hidden_size": draw(st.none() | WIDTH),
        "bias": draw(FLAG),
        "alibi": draw(FLAG),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def latent(draw: st.DrawFn, /, family: str, **more: st.SearchStrategy[Any]) -> Config:
    """A config under DeepSeek's names, with latent attention and an indexer."""
    config: Config = draw(
        routed(
            family,
            "n_routed_experts",
            moe_intermediate_size=WIDTH,
            n_shared_experts=SMALL,
            first_k_dense_replace=st.integers(0, 5),
            q_lora_rank=WIDTH,
            kv_lora_rank=WIDTH,
            qk_nope_head_dim=WIDTH,
            qk_rope_head_dim=WIDTH,
            v_head_dim=WIDTH,
            attention_bias=FLAG,
            index_n_heads=SMALL,
            index_head_dim=WIDTH,
            index_topk=SMALL,
            **more,
        )
    )
    return {**config, "num_key_value_heads": config["num_attention_heads"]}


@st.composite
def deepseek_v3(draw: st.DrawFn, /, family: str) -> Config:
    config = draw(latent(family))
    return {key: value for key, value in config.items() if not key.startswith("index_")}


@st.composite
def glm_moe_dsa(draw: st.DrawFn) -> Config:
    config = draw(
        latent(
            "glm_moe_dsa",
            index_topk_freq=SMALL,
            index_skip_topk_offset=st.integers(1, 4),
        )
    )
    config = kinds(draw, config, ("dense", "sparse"), "mlp_layer_types")
    count = config["num_hidden_layers"] - 1
    shared = draw(st.none() | st.lists(st.sampled_from(["full", "shared"]), min_size=count))
    if shared is None:
        return config
    return {**config, "indexer_types": ["full", *shared[:count]]}


@st.composite
def deepseek_v4(draw: st.DrawFn, /, family: str) -> Config:
    config: Config = draw(
        routed(
            family,
            "n_routed_experts",
            moe_intermediate_size=WIDTH,
            head_dim=WIDTH,
            q_lora_rank=WIDTH,
            o_lora_rank=WIDTH,
            index_n_heads=SMALL,
            index_head_dim=WIDTH,
            index_topk=SMALL,
            sliding_window=SMALL,
            hc_mult=SMALL,
            num_hash_layers=st.integers(0, 3),
        )
    )
    count = config["num_hidden_layers"]
    ratios = st.lists(st.sampled_from([0, 4, 128]), min_size=count + 1, max_size=count + 1)
    del config["intermediate_size"]
    return {
        **config,
        "num_key_value_heads": 1,
        "n_shared_experts": 1,
        "o_groups": config["num_attention_heads"],
        "qk_rope_head_dim": 2,
        "compress_ratios": draw(ratios),
    }


@st.composite
def llama4_text(draw: st.DrawFn) -> Config:
    config: Config = draw(
        routed(
            "llama4_text",
            "num_local_experts",
            intermediate_size_mlp=WIDTH,
            head_dim=WIDTH,
            interleave_moe_layer_step=SMALL,
            no_rope_layer_interval=SMALL,
            attention_chunk_size=st.none() | POSITIONS,
            attention_bias=FLAG,
            use_qk_norm=FLAG,
        )
    )
    count = config["num_hidden_layers"]
    layers = st.lists(st.integers(0, count - 1), unique=True)
    return {**config, "moe_layers": draw(st.none() | layers)}


@st.composite
def llama4(draw: st.DrawFn) -> Config:
    text = draw(llama4_text())
    tied = text.pop("tie_word_embeddings")
    heads, patch, wide = draw(SMALL), draw(SMALL), draw(WIDTH)
    hidden = heads * draw(WIDTH)
    return {
        "model_type": "llama4",
        "text_config": text,
        "vision_config": {
            "model_type": "llama4_vision_model",
            "hidden_size": hidden,
            "intermediate_size": draw(WIDTH),
            "num_hidden_layers": draw(LAYERS),
            "num_attention_heads": heads,
            "image_size": patch * draw(SMALL),
            "patch_size": patch,
            "projector_input_dim": draw(WIDTH),
            "projector_output_dim": wide,
            "vision_output_dim": wide,
        },
        "tie_word_embeddings": tied,
    }


def qwen_vision(draw: st.DrawFn) -> Config:
    """The keys that the towers of Qwen's models share."""
    heads = draw(SMALL)
    return {
        "num_heads": heads,
        "hidden_size": heads * draw(WIDTH),
        "intermediate_size": draw(WIDTH),
        "depth": draw(LAYERS),
        "patch_size": draw(SMALL),
        "temporal_patch_size": draw(SMALL),
        "spatial_merge_size": draw(SMALL),
        "in_channels": draw(SMALL),
        "out_hidden_size": draw(WIDTH),
    }


def nested(text: Config, vision: Config, family: str) -> Config:
    """A model of two parts, whose outer key says whether the head is tied."""
    tied = text.pop("tie_word_embeddings")
    text["model_type"] = f"{family}_text"
    vision["model_type"] = f"{family}_vision"
    parts = {"text_config": text, "vision_config": vision}
    return {"model_type": family, **parts, "tie_word_embeddings": tied}


@st.composite
def qwen2_vl(draw: st.DrawFn) -> Config:
    text = draw(grouped("qwen2_vl_text"))
    vision = qwen_vision(draw)
    vision["embed_dim"] = vision.pop("hidden_size")
    vision["hidden_size"] = vision.pop("out_hidden_size")
    del vision["intermediate_size"]
    return nested(text, {**vision, "mlp_ratio": draw(SMALL)}, "qwen2_vl")


@st.composite
def qwen2_5_vl(draw: st.DrawFn) -> Config:
    return nested(draw(grouped("qwen2_5_vl_text")), qwen_vision(draw), "qwen2_5_vl")


@st.composite
def qwen3_vl(draw: st.DrawFn, /, family: str) -> Config:
    if family == "qwen3_vl":
        text = draw(grouped("qwen3_vl_text", head_dim=WIDTH, attention_bias=FLAG))
    else:
        text = draw(
            routed(
                "qwen3_vl_moe_text",
                "num_experts",
                head_dim=WIDTH,
                attention_bias=FLAG,
                moe_intermediate_size=WIDTH,
                decoder_sparse_step=SMALL,
            )
        )
    vision = qwen_vision(draw)
    taps = st.lists(st.integers(0, vision["depth"] - 1), unique=True)
    vision |= {
        "num_position_embeddings": draw(SMALL) ** 2,
        "deepstack_visual_indexes": draw(taps),
    }
    return nested(text, vision, family)


@st.composite
def kimi_k25(draw: st.DrawFn) -> Config:
    text = draw(deepseek_v3("deepseek_v3"))
    tied = text.pop("tie_word_embeddings")
    heads = draw(SMALL)
    hidden = heads * draw(WIDTH)
    return {
        "model_type": "kimi_k25",
        "text_config": text,
        "vision_config": {
            "model_type": "kimi_k25_vision",
            "hidden_size": hidden,
            "intermediate_size": draw(WIDTH),
            "num_attention_heads": heads,
            "num_hidden_layers": draw(LAYERS),
            "patch_size": draw(SMALL),
            "pos_emb_height": draw(SMALL),
            "pos_emb_width": draw(SMALL),
            "merge_kernel_size": [draw(SMALL), draw(SMALL)],
        },
        "projection_hidden_size": hidden,
        "tie_word_embeddings": tied,
    }


@st.composite
def minimax_m3(draw: st.DrawFn, /, family: str) -> Config:
    config: Config = draw(
        routed(
            family,
            "num_local_experts",
            head_dim=WIDTH,
            dense_intermediate_size=WIDTH,
            shared_intermediate_size=WIDTH,
            index_n_heads=SMALL,
            index_head_dim=WIDTH,
        )
    )
    count = config["num_hidden_layers"]
    zeros = st.lists(st.integers(0, 1), min_size=count, max_size=count)
    sparse = {
        "sparse_attention_freq": draw(zeros),
        "sparse_num_index_heads": draw(SMALL),
        "sparse_index_dim": draw(WIDTH),
    }
    if draw(FLAG):
        config |= {"sparse_attention_config": sparse, "moe_layer_freq": draw(zeros)}
    config = kinds(draw, config, (FULL, "minimax_m3_sparse"), "layer_types")
    return kinds(draw, config, ("dense", "sparse"), "mlp_layer_types")


@st.composite
def minimax_m3_vl(draw: st.DrawFn) -> Config:
    text = draw(minimax_m3("minimax_m3_vl_text"))
    heads = draw(SMALL)
    vision = {
        "hidden_size": heads * draw(WIDTH),
        "intermediate_size": draw(WIDTH),
        "num_hidden_layers": draw(LAYERS),
        "num_attention_heads": heads,
        "patch_size": draw(SMALL),
        "temporal_patch_size": draw(SMALL),
        "spatial_merge_size": draw(SMALL),
        "image_size": 8,
    }
    return {**nested(text, vision, "minimax_m3_vl"), "projector_hidden_size": draw(WIDTH)}


@st.composite
def mimo_v2_flash(draw: st.DrawFn) -> Config:
    config: Config = draw(
        routed(
            "mimo_v2_flash",
            "n_routed_experts",
            head_dim=WIDTH,
            v_head_dim=WIDTH,
            moe_intermediate_size=WIDTH,
            attention_bias=FLAG,
            num_nextn_predict_layers=st.integers(0, 2),
        )
    )
    config["num_attention_heads"] *= 2
    config = kinds(draw, config, (FULL, SLIDING), "layer_types")
    return kinds(draw, config, ("dense", "sparse"), "mlp_layer_types")


@st.composite
def step3p7(draw: st.DrawFn) -> Config:
    text: Config = draw(
        routed(
            "step3p5",
            "n_routed_experts",
            head_dim=WIDTH,
            moe_intermediate_size=WIDTH,
            share_expert_dim=WIDTH,
            sliding_window=SMALL,
            attention_bias=FLAG,
        )
    )
    tied = text.pop("tie_word_embeddings")
    text = kinds(draw, text, (FULL, SLIDING), "layer_types")
    text = kinds(draw, text, ("dense", "sparse"), "mlp_layer_types")
    if draw(FLAG):
        heads = text["num_key_value_heads"] * draw(SMALL)
        text["attention_other_setting"] = {"num_attention_heads": heads}
    heads, patch = draw(SMALL), draw(SMALL)
    side = draw(SMALL)
    return {
        "model_type": "step3p7",
        "text_config": text,
        "vision_config": {
            "width": heads * draw(WIDTH),
            "layers": draw(LAYERS),
            "heads": heads,
            "mlp_ratio": draw(st.sampled_from([2.0, 8960 / 1536])),
            "patch_size": patch,
            "image_size": patch * side,
            "max_position_embeddings": side**2,
        },
        "projector_bias": draw(FLAG),
        "tie_word_embeddings": tied,
    }


@st.composite
def gemma4_text(draw: st.DrawFn) -> Config:
    config: Config = draw(
        grouped(
            "gemma4_text",
            head_dim=WIDTH,
            global_head_dim=WIDTH,
            attention_k_eq_v=FLAG,
            attention_bias=FLAG,
            sliding_window=SMALL,
            hidden_size_per_layer_input=st.sampled_from([0, 4, 8]),
            vocab_size_per_layer_input=VOCAB,
            use_double_wide_mlp=FLAG,
        )
    )
    config["num_hidden_layers"] = layers = draw(st.integers(3, 6))
    config["num_global_key_value_heads"] = draw(
        st.sampled_from([None, config["num_key_value_heads"], config["num_attention_heads"]])
    )
    # The layers that own their keys come first and are of both kinds.
    owners = draw(st.integers(2, layers))
    later = st.lists(st.sampled_from([FULL, SLIDING]), min_size=layers - 2, max_size=layers - 2)
    types = [SLIDING, FULL, *draw(later)]
    types[-1] = FULL
    config |= {"layer_types": types, "num_kv_shared_layers": layers - owners}
    if draw(FLAG):
        experts = draw(SMALL)
        config |= {
            "enable_moe_block": True,
            "num_experts": experts,
            "top_k_experts": draw(st.integers(1, experts)),
            "moe_intermediate_size": draw(WIDTH),
        }
    return config


@st.composite
def gemma4(draw: st.DrawFn) -> Config:
    text = draw(gemma4_text())
    heads = draw(SMALL)
    vision = {
        "hidden_size": heads * draw(WIDTH),
        "intermediate_size": draw(WIDTH),
        "num_hidden_layers": draw(LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": draw(WIDTH),
        "patch_size": draw(SMALL),
        "position_embedding_size": draw(SMALL),
    }
    return nested(text, vision, "gemma4")


SOFTMAX: dict[str, st.SearchStrategy[Config]] = {
    "bloom": bloom(),
    "cohere": grouped("cohere", attention_bias=FLAG, use_qk_norm=FLAG),
    "cohere2": listed(grouped("cohere2", attention_bias=FLAG), FULL, SLIDING),
    "deepseek_ref": deepseek_v4("deepseek_ref"),
    "deepseek_v32": latent("deepseek_v32"),
    "deepseek_v4": deepseek_v4("deepseek_v4"),
    "falcon": falcon(),
    "gemma4": gemma4(),
    "gemma4_text": gemma4_text(),
    "glm": grouped("glm", head_dim=WIDTH, attention_bias=FLAG),
    "glm4": grouped("glm4", head_dim=WIDTH, attention_bias=FLAG),
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
    "glm_moe_dsa": glm_moe_dsa(),
    "gpt_oss": listed(
        routed("gpt_oss", "num_local_experts", head_dim=WIDTH, attention_bias=FLAG), FULL, SLIDING
    ),
    "gptj": gptj(),
    "kimi_k2": deepseek_v3("kimi_k2"),
    "kimi_k25": kimi_k25(),
    "llama4": llama4(),
    "llama4_text": llama4_text(),
    "mimo": grouped("mimo", num_nextn_predict_layers=st.integers(0, 2)),
    "mimo_v2_flash": mimo_v2_flash(),
    "minimax_m2": routed("minimax_m2", "num_local_experts", head_dim=WIDTH),
    "minimax_m3": minimax_m3("minimax_m3"),
    "minimax_m3_vl": minimax_m3_vl(),
    "minimax_m3_vl_text": minimax_m3("minimax_m3_vl_text"),
    "mpt": mpt(),
    "nemotron": grouped("nemotron", head_dim=WIDTH, attention_bias=FLAG, mlp_bias=FLAG),
    "olmo": grouped("olmo", attention_bias=FLAG, clip_qkv=st.none() | st.just(8.0)),
    "olmo2": grouped("olmo2", attention_bias=FLAG),
    "olmo3": listed(grouped("olmo3", attention_bias=FLAG), FULL, SLIDING),
    "olmoe": routed("olmoe", "num_experts", attention_bias=FLAG),
    "phi": grouped("phi", qk_layernorm=FLAG),
    "phi3": grouped("phi3", sliding_window=WINDOW, pad_token_id=st.just(0)),
    "qwen2_5_vl": qwen2_5_vl(),
    "qwen2_vl": qwen2_vl(),
    "qwen3_vl": qwen3_vl("qwen3_vl"),
    "qwen3_vl_moe": qwen3_vl("qwen3_vl_moe"),
    "smollm3": grouped("smollm3", attention_bias=FLAG, mlp_bias=FLAG, pad_token_id=st.just(0)),
    "starcoder2": grouped("starcoder2", use_bias=FLAG, sliding_window=WINDOW),
    "step3p7": step3p7(),
}


@pytest.mark.parametrize("family", SOFTMAX)
@settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_small_configs_equal_transformers(family: str, data: st.DataObject) -> None:
    config = data.draw(SOFTMAX[family])
    agrees(config, read_config(config, name=family))
