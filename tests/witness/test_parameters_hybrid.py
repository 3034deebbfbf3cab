"""Parameter counts of recurrent models and hybrids beside those of the classes in transformers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.witness.test_parameters import (
    FLAG,
    LAYERS,
    POSITIONS,
    VOCAB,
    WIDTH,
    Config,
    agrees,
    build,
    grouped,
    routed,
)
from tonnage.arch import read_config

TAPS = st.integers(2, 4)
KINDS = ("linear_attention", "full_attention")


def listed(draw: st.DrawFn, config: Config, kinds: tuple[str, ...] = KINDS) -> Config:
    """The config with the kind of each layer, as files say it, or without a list."""
    count = config["num_hidden_layers"]
    kind = st.sampled_from(kinds)
    types = draw(st.none() | st.lists(kind, min_size=count, max_size=count))
    return config if types is None else {**config, "layer_types": types}


@st.composite
def mamba(draw: st.DrawFn, /, family: str) -> Config:
    return {
        "model_type": family,
        "hidden_size": draw(WIDTH),
        "state_size": draw(st.integers(1, 8)),
        "num_hidden_layers": draw(LAYERS),
        "expand": draw(st.integers(1, 3)),
        "conv_kernel": draw(TAPS),
        "use_bias": draw(FLAG),
        "use_conv_bias": draw(FLAG),
        "time_step_rank": draw(st.just("auto") | st.integers(1, 9)),
        "vocab_size": draw(VOCAB),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def mamba2(draw: st.DrawFn) -> Config:
    groups, expand = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    heads, hidden_share = groups * draw(st.integers(1, 3)) * expand, draw(st.integers(1, 6))
    config: Config = draw(mamba("mamba2"))
    del config["time_step_rank"]
    return {
        **config,
        "num_heads": heads,
        "head_dim": hidden_share,
        "expand": expand,
        "hidden_size": heads // expand * hidden_share,
        "n_groups": groups,
        "chunk_size": 8,
    }


@st.composite
def jamba(draw: st.DrawFn) -> Config:
    config: Config = draw(grouped("jamba", mamba_d_state=st.integers(1, 8), mamba_d_conv=TAPS))
    for part in ("attn", "expert"):
        period = draw(st.integers(1, 3))
        config[f"{part}_layer_period"] = period
        config[f"{part}_layer_offset"] = draw(st.integers(0, period - 1))
    experts = draw(st.integers(1, 4))
    return {
        **config,
        "num_experts": experts,
        "num_experts_per_tok": draw(st.integers(1, experts)),
        "mamba_expand": draw(st.integers(1, 2)),
        "mamba_dt_rank": draw(st.just("auto") | st.integers(1, 9)),
        "mamba_conv_bias": draw(FLAG),
        "mamba_proj_bias": draw(FLAG),
    }


def with_mamba2(draw: st.DrawFn, config: Config) -> Config:
    """The keys of Bamba's and Granite's Mamba-2, for the hidden size of a config."""
    groups, per_group = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    hidden = config["hidden_size"] * groups * per_group
    return {
        **config,
        "hidden_size": hidden,
        "mamba_n_heads": groups * per_group,
        "mamba_n_groups": groups,
        "mamba_d_head": draw(st.sampled_from(["auto", 2 * config["hidden_size"]])),
        "mamba_d_state": draw(st.integers(1, 8)),
        "mamba_d_conv": draw(TAPS),
        "mamba_expand": 2,
        "mamba_chunk_size": 8,
        "mamba_conv_bias": draw(FLAG),
        "mamba_proj_bias": draw(FLAG),
    }


@st.composite
def granite(draw: st.DrawFn) -> Config:
    config: Config = draw(
        routed(
            "granitemoehybrid",
            "num_local_experts",
            shared_intermediate_size=WIDTH,
            attention_bias=FLAG,
            position_embedding_type=st.sampled_from(["nope", "rope"]),
        )
    )
    if draw(FLAG):
        config["num_local_experts"] = 0
    older = ("mamba", "attention")
    return listed(draw, with_mamba2(draw, config), draw(st.sampled_from([KINDS, older])))


@st.composite
def bamba(draw: st.DrawFn) -> Config:
    config = with_mamba2(draw, draw(grouped("bamba", attention_bias=FLAG, mlp_bias=FLAG)))
    layer = st.integers(0, config["num_hidden_layers"] - 1)
    return {**config, "attn_layer_indices": draw(st.lists(layer, unique=True))}


@st.composite
def nemotron_h(draw: st.DrawFn) -> Config:
    pattern = draw(st.text("M*-E", min_size=1, max_size=8))
    groups, experts = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
    base: Config = draw(grouped("nemotron_h"))
    return {
        "model_type": "nemotron_h",
        **{name: base[name] for name in names},
        "head_dim": draw(WIDTH),
        "hybrid_override_pattern": pattern,
        "num_hidden_layers": len(pattern),
        "intermediate_size": draw(WIDTH),
        "max_position_embeddings": draw(POSITIONS),
        "mamba_num_heads": groups * draw(st.integers(1, 3)),
        "mamba_head_dim": draw(WIDTH),
        "n_groups": groups,
        "ssm_state_size": draw(st.integers(1, 8)),
        "conv_kernel": draw(TAPS),
        "chunk_size": 8,
        "use_bias": draw(FLAG),
        "use_conv_bias": draw(FLAG),
        "mlp_bias": draw(FLAG),
        "n_routed_experts": experts,
        "num_experts_per_tok": draw(st.integers(1, experts)),
        "moe_intermediate_size": draw(WIDTH),
        "moe_shared_expert_intermediate_size": draw(WIDTH),
        "moe_latent_size": draw(st.none() | WIDTH),
    }


@st.composite
def kimi_linear(draw: st.DrawFn) -> Config:
    experts = draw(st.integers(1, 4))
    config: Config = draw(
        grouped(
            "kimi_linear",
            moe_intermediate_size=WIDTH,
            num_shared_experts=st.integers(1, 2),
            q_lora_rank=st.none() | WIDTH,
            kv_lora_rank=WIDTH,
            qk_nope_head_dim=WIDTH,
            qk_rope_head_dim=WIDTH,
            v_head_dim=WIDTH,
            attention_bias=FLAG,
            first_k_dense_replace=st.integers(0, 3),
        )
    )
    count = config["num_hidden_layers"]
    del config["tie_word_embeddings"]
    full = draw(st.sets(st.integers(1, count)))
    return {
        **config,
        "num_key_value_heads": config["num_attention_heads"],
        "pad_token_id": None,
        "num_experts": experts,
        "num_experts_per_token": draw(st.integers(1, experts)),
        "linear_attn_config": {
            "full_attn_layers": sorted(full),
            "kda_layers": sorted({*range(1, count + 1)} - full),
            "head_dim": draw(WIDTH),
            "num_heads": draw(st.integers(1, 3)),
            "short_conv_kernel_size": draw(TAPS),
        },
    }


def with_delta(draw: st.DrawFn, config: Config) -> Config:
    """The keys of Qwen's Gated DeltaNet."""
    key_heads = draw(st.integers(1, 3))
    return {
        **listed(draw, config),
        "head_dim": draw(WIDTH),
        "attention_bias": draw(FLAG),
        "full_attention_interval": draw(st.integers(1, 4)),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * draw(st.integers(1, 3)),
        "linear_key_head_dim": draw(WIDTH),
        "linear_value_head_dim": draw(WIDTH),
        "linear_conv_kernel_dim": draw(TAPS),
    }


def sparse(family: str) -> st.SearchStrategy[Config]:
    return routed(
        family,
        "num_experts",
        moe_intermediate_size=WIDTH,
        shared_expert_intermediate_size=WIDTH,
    )


@st.composite
def qwen3_next(draw: st.DrawFn) -> Config:
    config = with_delta(draw, draw(sparse("qwen3_next")))
    layer = st.integers(0, config["num_hidden_layers"] - 1)
    return {
        **config,
        "decoder_sparse_step": draw(st.integers(1, 3)),
        "mlp_only_layers": draw(st.lists(layer, unique=True)),
    }


@st.composite
def qwen3_5_text(draw: st.DrawFn, /, family: str) -> Config:
    base = sparse(family) if "moe" in family else grouped(family)
    return with_delta(draw, draw(base))


@st.composite
def qwen3_5(draw: st.DrawFn, /, family: str) -> Config:
    text = draw(qwen3_5_text(f"{family}_text"))
    heads, tied = draw(st.integers(1, 3)), text.pop("tie_word_embeddings")
    return {
        "model_type": family,
        "text_config": text,
        "vision_config": {
            "model_type": draw(st.sampled_from([family, f"{family}_vision"])),
            "depth": draw(LAYERS),
            "hidden_size": heads * draw(WIDTH),
            "num_heads": heads,
            "intermediate_size": draw(WIDTH),
            "out_hidden_size": draw(WIDTH),
            "patch_size": draw(st.integers(1, 4)),
            "temporal_patch_size": draw(st.integers(1, 2)),
            "spatial_merge_size": draw(st.integers(1, 2)),
            "num_position_embeddings": draw(POSITIONS),
        },
        "tie_word_embeddings": tied,
    }


@st.composite
def lfm2(draw: st.DrawFn) -> Config:
    config: Config = draw(grouped("lfm2", conv_L_cache=TAPS, conv_bias=FLAG))
    layer = st.integers(0, config["num_hidden_layers"] - 1)
    return listed(
        draw,
        {
            **config,
            "full_attn_idxs": draw(st.none() | st.lists(layer, unique=True)),
            "block_auto_adjust_ff_dim": draw(FLAG),
            "block_multiple_of": draw(st.integers(1, 9)),
            "block_ffn_dim_multiplier": draw(st.sampled_from([1.0, 1.3, 0.7])),
        },
        ("conv", "full_attention"),
    )


@st.composite
def lfm2_moe(draw: st.DrawFn) -> Config:
    config: Config = draw(
        routed(
            "lfm2_moe",
            "num_experts",
            conv_L_cache=TAPS,
            conv_bias=FLAG,
            moe_intermediate_size=WIDTH,
            num_dense_layers=st.integers(0, 3),
        )
    )
    count = config["num_hidden_layers"]
    kind = st.sampled_from(["conv", "full_attention"])
    return {**config, "layer_types": draw(st.lists(kind, min_size=count, max_size=count))}


@st.composite
def minimax(draw: st.DrawFn) -> Config:
    return listed(
        draw, draw(routed("minimax", "num_local_experts", head_dim=WIDTH, block_size=st.just(8)))
    )


@st.composite
def olmo_hybrid(draw: st.DrawFn) -> Config:
    config = with_delta(draw, draw(grouped("olmo_hybrid")))
    kinds = {*(config.get("layer_types") or KINDS)}
    if len(kinds) == 1:  # the class insists on both
        config["layer_types"] = [*config["layer_types"], *KINDS]
        config["num_hidden_layers"] += 2
    if config["num_hidden_layers"] == 1:
        config["num_hidden_layers"] = 2
    del config["full_attention_interval"], config["head_dim"]
    return {**config, "pad_token_id": None}


FAMILIES: dict[str, st.SearchStrategy[Config]] = {
    "bamba": bamba(),
    "falcon_mamba": mamba("falcon_mamba"),
    "granitemoehybrid": granite(),
    "jamba": jamba(),
    "kimi_linear": kimi_linear(),
    "lfm2": lfm2(),
    "lfm2_moe": lfm2_moe(),
    "mamba": mamba("mamba"),
    "mamba2": mamba2(),
    "minimax": minimax(),
    "nemotron_h": nemotron_h(),
    "olmo_hybrid": olmo_hybrid(),
    "qwen3_5": qwen3_5("qwen3_5"),
    "qwen3_5_moe": qwen3_5("qwen3_5_moe"),
    "qwen3_5_moe_text": qwen3_5_text("qwen3_5_moe_text"),
    "qwen3_5_text": qwen3_5_text("qwen3_5_text"),
    "qwen3_next": qwen3_next(),
}


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_small_configs_equal_transformers(family: str, data: st.DataObject) -> None:
    config = data.draw(FAMILIES[family])
    agrees(config, read_config(config, name=family))


@pytest.mark.parametrize(
    ("family", "absent"),
    [
        ("bamba", ("mamba_d_head", "mamba_conv_bias", "mamba_proj_bias", "attention_bias")),
        ("falcon_mamba", ("tie_word_embeddings", "use_bias", "use_conv_bias", "time_step_rank")),
        ("granitemoehybrid", ("layer_types", "mamba_d_head", "mamba_conv_bias", "attention_bias")),
        ("jamba", ("mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias", "tie_word_embeddings")),
        ("lfm2", ("full_attn_idxs", "layer_types", "tie_word_embeddings", "conv_bias")),
        ("lfm2", ("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier")),
        ("lfm2_moe", ("tie_word_embeddings", "conv_bias")),
        ("mamba", ("tie_word_embeddings", "use_bias", "use_conv_bias", "time_step_rank")),
        ("mamba2", ("tie_word_embeddings", "use_bias", "use_conv_bias")),
        ("minimax", ("layer_types", "tie_word_embeddings", "head_dim")),
        ("nemotron_h", ("head_dim", "use_bias", "use_conv_bias", "mlp_bias", "moe_latent_size")),
        ("nemotron_h", ("num_hidden_layers",)),
        ("olmo_hybrid", ("linear_num_key_heads", "linear_num_value_heads", "layer_types")),
        ("olmo_hybrid", ("num_key_value_heads", "linear_value_head_dim", "attention_bias")),
        ("qwen3_5", ("tie_word_embeddings",)),
        ("qwen3_5_text", ("head_dim", "layer_types", "full_attention_interval")),
        ("qwen3_next", ("head_dim", "layer_types", "decoder_sparse_step", "mlp_only_layers")),
    ],
)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_absent_key_means_what_the_class_says(
    family: str, absent: tuple[str, ...], data: st.DataObject
) -> None:
    config = {k: v for k, v in data.draw(FAMILIES[family]).items() if k not in absent}
    agrees(config, read_config(config, name=family))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_what_transformers_writes_is_read_as_what_it_read(data: st.DataObject) -> None:
    """Kimi Linear and Nemotron-H are written under other keys than the files on the hub have."""
    for family in ("kimi_linear", "nemotron_h"):
        config = data.draw(FAMILIES[family])
        written = build(config).config.to_dict()
        again = read_config(written, name=family)
        assert again.layers == read_config(config, name=family).layers
