"""Small configs of softmax-attention families, drawn at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.witness.test_parameters import (
    FLAG,
    LAYERS,
    POSITIONS,
    VOCAB,
    WIDTH,
    Config,
    grouped,
    routed,
)

FULL, SLIDING = "full_attention", "sliding_attention"
SMALL = st.integers(1, 4)


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
        "attn_config": draw(st.none() | st.just({"clip_qkv": 6.0})),
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
def bert(draw: st.DrawFn) -> Config:
    config: Config = draw(grouped("bert", type_vocab_size=SMALL))
    del config["num_key_value_heads"]
    return {**config, "tie_word_embeddings": True, "pad_token_id": 0}


@st.composite
def t5(draw: st.DrawFn) -> Config:
    return {
        "model_type": "t5",
        "d_model": draw(WIDTH),
        "d_kv": draw(WIDTH),
        "d_ff": draw(WIDTH),
        "num_heads": draw(SMALL),
        "num_layers": draw(LAYERS),
        "num_decoder_layers": draw(st.none() | LAYERS),
        "relative_attention_num_buckets": draw(SMALL) * 2,
        "feed_forward_proj": draw(st.sampled_from(["relu", "gated-gelu"])),
        "vocab_size": draw(VOCAB),
    }
