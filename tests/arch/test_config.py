"""What a config.json must say, and what a person is told when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.arch import catalog, read_config
from tonnage.arch.config import LARGEST_FILE, parse_config
from tonnage.errors import InputError, NotModelledError


def edited(name: str, **changes: Any) -> dict[str, Any]:
    """A catalog entry's config with keys changed; ``...`` takes a key out."""
    config = {**catalog.entries()[name].config, **changes}
    return {key: value for key, value in config.items() if value is not ...}


def refusal(name: str, **changes: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_config(edited(name, **changes), name=name)
    return caught.value


def test_the_whole_text_of_an_error() -> None:
    error = refusal("llama-3.1-8b", hidden_size="4096")
    assert str(error) == (
        "config.hidden_size: 4096 is not a whole number "
        "(accepted: a whole number from 1 to 1099511627776)"
    )
    assert error.value == "4096"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (..., "is given and nothing is guessed"),
        (None, "is not a whole number"),
        (True, "is not a whole number"),
        ("4096", "is not a whole number"),
        (4096.0, "is not a whole number"),
        (float("nan"), "is not a whole number"),
        (float("inf"), "is not a whole number"),
        ([4096], "is not a whole number"),
        (0, "is out of range"),
        (-4096, "is out of range"),
        (2**41, "is out of range"),
        pytest.param(10**6000, "is out of range", id="6000 digits"),
    ],
)
def test_a_width_is_a_positive_whole_number(value: object, problem: str) -> None:
    error = refusal("llama-3.1-8b", hidden_size=value)
    assert error.field == "config.hidden_size"
    assert error.problem == problem
    assert error.message


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "llama-2-7b",
            {"num_attention_heads": 33, "num_key_value_heads": 33},
            "config.hidden_size: 4096 is not divisible by the 33 attention heads"
            " (accepted: a multiple of 33)",
        ),
        (
            "llama-3.1-8b",
            {"num_key_value_heads": 5},
            "config.num_key_value_heads: 5 does not divide the 32 attention heads"
            " (accepted: a divisor of 32)",
        ),
        (
            "mixtral-8x7b",
            {"num_experts_per_tok": 9},
            "config.num_experts_per_tok: 9 is more than the 8 experts"
            " (accepted: a whole number from 1 to 8)",
        ),
        (
            "gemma-2-9b",
            {"layer_types": ["full_attention"] * 41},
            "config.layer_types: a list of 41 does not match"
            " (accepted: a list of 42 names, one a layer)",
        ),
        (
            "gemma-2-9b",
            {"sliding_window": None},
            "config.sliding_window: None leaves the sliding layers without a window"
            " (accepted: a positive whole number)",
        ),
        (
            "qwen3-30b-a3b",
            {"mlp_only_layers": [48]},
            "config.mlp_only_layers: 48 is not the index of a layer"
            " (accepted: a list of whole numbers from 0 to 47)",
        ),
        (
            "qwen3-30b-a3b",
            {"num_local_experts": 64},
            "config.num_local_experts: 64 contradicts num_experts (accepted: 128 or no such key)",
        ),
        (
            "deepseek-v3",
            {"num_key_value_heads": 8},
            "config.num_key_value_heads: 8 groups queries, which latent attention does not"
            " (accepted: 128, the number of attention heads)",
        ),
        (
            "deepseek-v2-lite",
            {"q_lora_rank": ...},
            "config.q_lora_rank: nothing is given and nothing is guessed"
            " (accepted: a value or null)",
        ),
        (
            "llama-3.1-8b",
            {"num_hidden_layers": 10_001},
            "config.num_hidden_layers: 10001 is out of range"
            " (accepted: a whole number from 1 to 10000)",
        ),
        (
            "llama-3.1-8b",
            {"tie_word_embeddings": "false"},
            "config.tie_word_embeddings: false is not a boolean (accepted: true or false)",
        ),
        (
            "gpt2",
            {"attn_pdrop": 1.5},
            "config.attn_pdrop: 1.5 is out of range (accepted: a number from 0 to 1)",
        ),
        (
            "gemma-2-9b",
            {"attn_logit_softcapping": -1},
            "config.attn_logit_softcapping: -1 is not a positive number"
            " (accepted: a number above 0 or null)",
        ),
    ],
)
def test_contradictions(name: str, changes: dict[str, Any], message: str) -> None:
    assert str(refusal(name, **changes)) == message


def test_a_nested_key_is_named_by_its_path() -> None:
    text = catalog.entries()["gemma-3-27b"].config["text_config"]
    assert isinstance(text, dict)
    error = refusal("gemma-3-27b", text_config={**text, "hidden_size": -1})
    assert error.field == "config.text_config.hidden_size"


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("opt-6.7b", {"do_layer_norm_before": False}, "config.do_layer_norm_before"),
        ("opt-6.7b", {"layerdrop": 0.1}, "config.layerdrop"),
        ("gpt2", {"add_cross_attention": True}, "config.add_cross_attention"),
        ("gpt2", {"activation_function": "snake"}, "config.activation_function"),
        ("llama-2-7b", {"model_type": "rwkv"}, "config.model_type"),
        ("llama-2-7b", {"is_encoder_decoder": True}, "config.is_encoder_decoder"),
        (
            "llama-2-7b",
            {"architectures": ["LlamaForSequenceClassification"]},
            "config.architectures",
        ),
        ("mistral-7b", {"layer_types": ["full_attention"] * 32}, "config.layer_types"),
        ("qwen3-8b", {"layer_types": ["linear_attention"] * 36}, "config.layer_types"),
        ("qwen3-30b-a3b", {"use_sliding_window": True}, "config.use_sliding_window"),
        ("gemma-2-9b", {"use_bidirectional_attention": True}, "config.use_bidirectional_attention"),
    ],
)
def test_what_makes_sense_and_is_not_modelled(
    name: str, changes: dict[str, Any], field: str
) -> None:
    error = refusal(name, **changes)
    assert isinstance(error, NotModelledError)
    assert error.field == field
    assert error.accepted


def test_a_pooling_head_is_not_modelled_even_where_the_key_is_absent() -> None:
    vision = catalog.entries()["gemma-3-27b"].config["vision_config"]
    assert isinstance(vision, dict)
    headed = {key: value for key, value in vision.items() if key != "vision_use_head"}
    error = refusal("gemma-3-27b", vision_config=headed)
    assert isinstance(error, NotModelledError)
    assert error.field == "config.vision_config.vision_use_head"


def test_a_file_without_a_family_gets_a_hint() -> None:
    error = refusal("llama-2-7b", model_type=...)
    assert not isinstance(error, NotModelledError)
    assert error.hint.startswith("give the config.json of a model")


def test_remote_code_is_ignored() -> None:
    plain = read_config(edited("deepseek-v3"), name="a")
    pointed = read_config(edited("deepseek-v3", auto_map={"AutoModel": "evil.Model"}), name="a")
    assert plain == pointed


def test_the_caller_names_the_model() -> None:
    architecture = read_config(edited("qwen3-8b"), name="mine", source="a file")
    assert (architecture.name, architecture.family) == ("mine", "qwen3")
    assert architecture.source == "a file"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is not JSON: Expecting value at line 1, column 1"),
        (b'{"hidden_size": 4', "is not JSON: Expecting ',' delimiter at line 1, column 18"),
        (b'{"a": "\xff"}', "is not UTF-8 text at byte 7"),
        (b"[1, 2]", "holds 'a list of 2' and not a JSON object"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"a":' * 200_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number of too many digits"),
        (b" " * (LARGEST_FILE + 1), "is larger than the 8 MiB that are read"),
    ],
    ids=["empty", "truncated", "bytes", "list", "nest", "nested-objects", "digits", "large"],
)
def test_files_that_are_not_a_config(data: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_config(data, model="some/config.json")
    assert caught.value.field == "MODEL"
    assert caught.value.problem == problem


def test_a_byte_order_mark_is_no_obstacle() -> None:
    config = edited("gpt2")
    data = b"\xef\xbb\xbf" + json.dumps(config).encode()
    assert parse_config(data, model="gpt2") == config


@pytest.mark.parametrize("config", [None, [], "llama", 3])
def test_only_an_object_is_a_config(config: Any) -> None:
    with pytest.raises(InputError, match="is not a JSON object"):
        read_config(config, name="x")
