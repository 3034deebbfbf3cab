"""The catalog: complete, sourced, and equal to the files that it was taken from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tonnage.arch import Architecture, catalog, catalog_names, load
from tonnage.arch.families import FAMILIES
from tonnage.errors import InputError, NotModelledError, TonnageError

CASES = Path(__file__).parents[3] / "shared" / "cases" / "configs"
FILES = sorted(CASES.glob("*_config.json"))

needs_cases = pytest.mark.skipif(not FILES, reason=f"real configs are not at {CASES}")


def facts(architecture: Architecture) -> Architecture:
    return replace(architecture, name="", source="")


def test_names_are_short_and_lower_case() -> None:
    names = catalog_names()
    assert len(names) >= 85
    assert all(name == name.lower().strip() and "/" not in name for name in names)


@pytest.mark.parametrize("name", catalog_names())
def test_each_entry_reads_and_has_a_source(name: str) -> None:
    architecture = load(name)
    assert architecture.name == name
    assert architecture.source.startswith(("https://huggingface.co/", "https://arxiv.org/abs/"))


@pytest.mark.parametrize("model", ["Llama-3.1-8B", " llama-3.1-8b ", "meta-llama/Llama-3.1-8B"])
def test_names_ignore_case_and_hub_names_are_known(model: str) -> None:
    assert load(model).name == "llama-3.1-8b"


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        load("llama3.1-8b")
    assert str(caught.value) == (
        "MODEL: llama3.1-8b is neither in the catalog nor a file (accepted: a catalog name, "
        "a config.json, a folder that holds one, - or organisation/model)"
    )
    assert caught.value.hint.startswith("did you mean llama-3.1-8b")


@needs_cases
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_files_are_read_or_refused_by_name(path: Path) -> None:
    family = json.loads(path.read_bytes()).get("model_type")
    if family in FAMILIES:
        assert load(str(path)).family == family
        return
    # A file without a family describes a quantization, not a model.
    refusal = NotModelledError if family else InputError
    with pytest.raises(refusal, match=family or "nothing is given") as caught:
        load(str(path))
    assert caught.value.field == "config.model_type"


@needs_cases
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("deepseek-v3", "deepseek-ai--DeepSeek-V3_config.json"),
        ("deepseek-v3", "deepseek-ai--DeepSeek-R1_config.json"),
        ("llama-3.1-8b", "meta-llama--Meta-Llama-3.1-8B_config.json"),
        ("llama-3.1-70b", "meta-llama--Meta-Llama-3.1-70B_config.json"),
        ("llama-3.1-405b", "meta-llama--Meta-Llama-3.1-405B_config.json"),
        ("mixtral-8x7b", "mistralai--Mixtral-8x7B-v0.1_config.json"),
        ("qwen3-0.6b", "Qwen--Qwen3-0.6B_config.json"),
        ("qwen3-8b", "Qwen--Qwen3-8B_config.json"),
        ("qwen3-32b", "Qwen--Qwen3-32B_config.json"),
        ("qwen3-30b-a3b", "Qwen--Qwen3-30B-A3B_config.json"),
        ("qwen3-235b-a22b", "Qwen--Qwen3-235B-A22B_config.json"),
        ("deepseek-v4-flash", "sgl-project--DeepSeek-V4-Flash-FP8_config.json"),
        ("deepseek-v4-pro", "deepseek-ai--DeepSeek-V4-Pro_config.json"),
        ("gemma-4-26b-a4b", "google--gemma-4-26B-A4B_config.json"),
        ("glm-5", "zai-org--GLM-5_config.json"),
        ("glm-5.2", "zai-org--GLM-5.2_config.json"),
        ("gpt-oss-120b", "openai--gpt-oss-120b_config.json"),
        ("kimi-k2.5", "moonshotai--Kimi-K2.5_config.json"),
        ("mimo-7b", "XiaomiMiMo--MiMo-7B-Base_config.json"),
        ("mimo-v2-flash", "XiaomiMiMo--MiMo-V2-Flash_config.json"),
        ("minimax-m2.5", "MiniMaxAI--MiniMax-M2.5_config.json"),
        ("minimax-m3", "MiniMaxAI--MiniMax-M3_config.json"),
        ("qwen3-vl-8b", "Qwen--Qwen3-VL-8B-Instruct_config.json"),
        ("qwen3-vl-30b-a3b", "Qwen--Qwen3-VL-30B-A3B-Instruct_config.json"),
        ("step-3.7-flash", "stepfun-ai--Step-3.7-Flash-FP8_config.json"),
        ("qwen3.5-35b-a3b", "Qwen--Qwen3.5-35B-A3B_config.json"),
        ("qwen3.5-397b-a17b", "Qwen--Qwen3.5-397B-A17B_config.json"),
        ("nemotron-h-56b", "nvidia--Nemotron-H-56B-Base-8K_config.json"),
        (
            "nemotron-3-nano-30b-a3b",
            "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16_config.json",
        ),
    ],
)
def test_entries_equal_the_files_on_the_hub(name: str, file: str) -> None:
    assert facts(load(name)) == facts(load(str(CASES / file)))


def test_every_error_of_the_room_is_one_of_ours() -> None:
    assert issubclass(NotModelledError, InputError)
    assert issubclass(InputError, TonnageError)


def test_a_paper_is_no_hub_name() -> None:
    assert catalog.entries()["gpt3-175b"].hub_name == ""
    assert catalog.find("") is None
