"""Small configs of models with an image encoder, drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.witness.configs_text import (
    FULL,
    SLIDING,
    SMALL,
    deepseek_v3,
    gemma4_text,
    kinds,
    llama4_text,
    minimax_m3,
)
from tests.witness.test_parameters import FLAG, LAYERS, WIDTH, Config, grouped, routed


def nested(text: Config, vision: Config, family: str) -> Config:
    """A model of two parts, whose outer key says whether the head is tied."""
    tied = text.pop("tie_word_embeddings")
    text["model_type"] = f"{family}_text"
    vision["model_type"] = f"{family}_vision"
    parts = {"text_config": text, "vision_config": vision}
    return {"model_type": family, **parts, "tie_word_embeddings": tied}


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
def llama4(draw: st.DrawFn) -> Config:
    text = draw(llama4_text())
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
        "tie_word_embeddings": draw(FLAG),
    }


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


@st.composite
def vit(draw: st.DrawFn) -> Config:
    heads, patch = draw(SMALL), draw(SMALL)
    labels = draw(st.none() | st.integers(3, 9))
    return {
        "model_type": "vit",
        "hidden_size": heads * draw(WIDTH),
        "intermediate_size": draw(WIDTH),
        "num_attention_heads": heads,
        "num_hidden_layers": draw(LAYERS),
        "image_size": patch * draw(SMALL),
        "patch_size": patch,
        "num_channels": draw(SMALL),
        "qkv_bias": draw(FLAG),
        **({} if labels is None else {"id2label": {i: str(i) for i in range(labels)}}),
    }
