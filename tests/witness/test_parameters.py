"""The ledger's parameter counts beside those of the classes in transformers.

The models are built on the meta device, so that a model of a trillion parameters costs
as little as a small one. Counts must be equal; there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tonnage.arch import Architecture, catalog, read_config
from tonnage.ledger import parameters

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

Config = dict[str, Any]

FLAG = st.booleans()
LAYERS = st.integers(1, 5)
POSITIONS = st.integers(8, 64)
VOCAB = st.integers(16, 99)
WIDTH = st.integers(1, 20).map(lambda n: 4 * n)
WINDOW = st.none() | st.integers(1, 16)


def build(config: Mapping[str, Any]) -> Any:
    """The model that transformers builds from a config, without storage."""
    keys = dict(config)
    family = keys.pop("model_type")
    family = SAME_CLASS.get(family, family)
    auto = "AutoModelForImageTextToText" if "vision_config" in keys else "AutoModelForCausalLM"
    auto = OTHER_TASKS.get(family, auto)
    settings = transformers.AutoConfig.for_model(family, **keys)
    with torch.device("meta"):
        return getattr(transformers, auto).from_config(settings)


def counted(config: Mapping[str, Any]) -> tuple[int, int]:
    """Parameters of the model, and those that one token meets."""
    model = build(config)
    text = model.config.get_text_config()
    total = sum(weight.numel() for weight in model.parameters())
    routed = sum(weight.numel() for name, weight in model.named_parameters() if ".experts." in name)
    experts = next((getattr(text, key) for key in EXPERTS if getattr(text, key, None)), 1)
    chosen = next((getattr(text, key) for key in CHOSEN if getattr(text, key, None)), 1)
    return total, total - routed // experts * (experts - chosen)


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
CHOSEN = ("top_k_experts", "num_experts_per_tok")

OTHER_TASKS = {"t5": "AutoModelForSeq2SeqLM", "vit": "AutoModelForImageClassification"}

SAME_CLASS = {
    "deepseek_ref": "deepseek_v4",
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "minimax_m3": "minimax_m3_vl_text",
}
"""Families without a class of their own in transformers, and the class that reads their keys."""

NO_CLASS = {"step-3.7-flash"}
"""Files whose keys no class in transformers reads as they stand (a flat Step 3.7)."""


def agrees(config: Mapping[str, Any], architecture: Architecture) -> None:
    count = parameters(architecture)
    assert (count.total, count.active) == counted(config)


@st.composite
def grouped(draw: st.DrawFn, /, family: str, **more: st.SearchStrategy[Any]) -> Config:
    """A config under Llama's names, with the keys that a family adds."""
    kv_heads = draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    return {
        "model_type": family,
        "hidden_size": heads * draw(st.integers(1, 8)) * 2,
        "intermediate_size": draw(WIDTH),
        "num_hidden_layers": draw(LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": draw(VOCAB),
        "max_position_embeddings": draw(POSITIONS),
        "tie_word_embeddings": draw(FLAG),
        **{key: draw(strategy) for key, strategy in more.items()},
    }


@st.composite
def gpt2(draw: st.DrawFn) -> Config:
    heads = draw(st.integers(1, 4))
    return {
        "model_type": "gpt2",
        "n_embd": heads * draw(WIDTH),
        "n_head": heads,
        "n_layer": draw(LAYERS),
        "n_inner": draw(st.none() | WIDTH),
        "n_positions": draw(POSITIONS),
        "vocab_size": draw(VOCAB),
        "tie_word_embeddings": draw(FLAG),
    }


@st.composite
def opt(draw: st.DrawFn) -> Config:
    config: Config = draw(
        grouped(
            "opt",
            ffn_dim=WIDTH,
            enable_bias=FLAG,
            layer_norm_elementwise_affine=FLAG,
            word_embed_proj_dim=WIDTH,
        )
    )
    if draw(FLAG):
        del config["word_embed_proj_dim"]
    return config


@st.composite
def routed(draw: st.DrawFn, /, family: str, experts: str, **more: st.SearchStrategy[Any]) -> Config:
    count = draw(st.integers(1, 6))
    return {
        **draw(grouped(family, **more)),
        experts: count,
        "num_experts_per_tok": draw(st.integers(1, count)),
    }


@st.composite
def qwen_moe(draw: st.DrawFn, /, family: str, **more: st.SearchStrategy[Any]) -> Config:
    config: Config = draw(
        routed(
            family,
            "num_experts",
            moe_intermediate_size=WIDTH,
            decoder_sparse_step=st.integers(1, 3),
            **more,
        )
    )
    layer = st.integers(0, config["num_hidden_layers"] - 1)
    return {**config, "mlp_only_layers": draw(st.lists(layer, unique=True))}


@st.composite
def deepseek(draw: st.DrawFn, /, family: str, **more: st.SearchStrategy[Any]) -> Config:
    config: Config = draw(
        routed(
            family,
            "n_routed_experts",
            moe_intermediate_size=WIDTH,
            n_shared_experts=st.integers(1, 3),
            first_k_dense_replace=st.integers(0, 5),
            q_lora_rank=st.none() | WIDTH,
            kv_lora_rank=WIDTH,
            qk_nope_head_dim=WIDTH,
            qk_rope_head_dim=WIDTH,
            v_head_dim=WIDTH,
            attention_bias=FLAG,
            **more,
        )
    )
    return {**config, "num_key_value_heads": config["num_attention_heads"]}


@st.composite
def gemma3(draw: st.DrawFn) -> Config:
    heads, patch = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    text = draw(grouped("gemma3_text", head_dim=WIDTH, sliding_window=st.integers(1, 16)))
    # The outer key decides: inside, it is absent from the files on the hub.
    tied = text.pop("tie_word_embeddings")
    return {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": heads * draw(WIDTH),
            "intermediate_size": draw(WIDTH),
            "num_hidden_layers": draw(LAYERS),
            "num_attention_heads": heads,
            "image_size": patch * draw(st.integers(1, 5)),
            "patch_size": patch,
            "vision_use_head": False,
        },
        "mm_tokens_per_image": 1,
        "tie_word_embeddings": tied,
    }


FAMILIES: dict[str, st.SearchStrategy[Config]] = {
    "deepseek_v2": deepseek("deepseek_v2", mlp_bias=FLAG),
    "deepseek_v3": deepseek("deepseek_v3", num_nextn_predict_layers=st.integers(0, 2)),
    "gemma": grouped("gemma", head_dim=WIDTH, attention_bias=FLAG),
    "gemma2": grouped("gemma2", head_dim=WIDTH, attention_bias=FLAG),
    "gemma3": gemma3(),
    "gemma3_text": grouped("gemma3_text", head_dim=WIDTH, attention_bias=FLAG),
    "gpt2": gpt2(),
    "gpt_neox": grouped("gpt_neox", attention_bias=FLAG, use_parallel_residual=FLAG),
    "llama": grouped("llama", head_dim=st.none() | WIDTH, attention_bias=FLAG, mlp_bias=FLAG),
    "mistral": grouped("mistral", head_dim=st.none() | WIDTH, sliding_window=WINDOW),
    "mixtral": routed("mixtral", "num_local_experts", sliding_window=WINDOW),
    "opt": opt(),
    "qwen2": grouped(
        "qwen2",
        use_sliding_window=FLAG,
        sliding_window=WINDOW,
        max_window_layers=st.integers(0, 5),
    ),
    "qwen2_moe": qwen_moe("qwen2_moe", shared_expert_intermediate_size=WIDTH, qkv_bias=FLAG),
    "qwen3": grouped("qwen3", head_dim=WIDTH, attention_bias=FLAG),
    "qwen3_moe": qwen_moe("qwen3_moe", head_dim=WIDTH, attention_bias=FLAG),
}


@pytest.mark.parametrize("name", sorted({*catalog.catalog_names()} - NO_CLASS))
def test_catalog_equals_transformers(name: str) -> None:
    entry = catalog.entries()[name]
    agrees(entry.config, entry.read())


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_small_configs_equal_transformers(family: str, data: st.DataObject) -> None:
    config = data.draw(FAMILIES[family])
    agrees(config, read_config(config, name=family))


def test_each_family_has_a_witness() -> None:
    from tests.witness.test_parameters_hybrid import FAMILIES as HYBRIDS
    from tests.witness.test_parameters_softmax import SOFTMAX
    from tonnage.arch.families import FAMILIES as MODELLED

    # Megatron's options have no class in transformers: tests/formats hold them to the catalog's.
    assert {*FAMILIES, *HYBRIDS, *SOFTMAX} == {*MODELLED} - {"megatron"}


@pytest.mark.parametrize(
    ("family", "absent"),
    [
        ("llama", ("num_key_value_heads", "head_dim", "tie_word_embeddings", "attention_bias")),
        ("mistral", ("head_dim", "tie_word_embeddings")),
        ("qwen2", ("tie_word_embeddings",)),
        ("qwen3", ("head_dim", "tie_word_embeddings")),
        ("qwen3_moe", ("head_dim", "mlp_only_layers", "decoder_sparse_step")),
        ("gemma", ("head_dim", "tie_word_embeddings")),
        ("gemma2", ("head_dim", "tie_word_embeddings")),
        ("gemma3_text", ("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")),
        ("gemma3", ("tie_word_embeddings",)),
        ("gpt2", ("n_inner", "tie_word_embeddings")),
        ("gpt_neox", ("attention_bias", "tie_word_embeddings")),
        ("opt", ("enable_bias", "layer_norm_elementwise_affine", "tie_word_embeddings")),
        ("deepseek_v2", ("num_key_value_heads", "attention_bias", "mlp_bias")),
        ("deepseek_v3", ("num_nextn_predict_layers", "attention_bias")),
    ],
)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_absent_key_means_what_the_class_says(
    family: str, absent: tuple[str, ...], data: st.DataObject
) -> None:
    config = {k: v for k, v in data.draw(FAMILIES[family]).items() if k not in absent}
    if "num_attention_heads" in absent:  # the class's own check of its default of 8 heads
        config["hidden_size"] = 64
    agrees(config, read_config(config, name=family))
