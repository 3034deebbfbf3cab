"""Names of models in launch files: what leaves a shape alone, and what does not."""

from __future__ import annotations

import pytest

from tonnage.arch import catalog
from tonnage.formats.model_name import _SAME, catalog_name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("unsloth/llama-3-8b-bnb-4bit", "llama-3-8b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("/models/Qwen2.5-7B-Instruct-AWQ/", "qwen2.5-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("NousResearch/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen2-1.5B-Instruct", "qwen2.5-1.5b"),
        ("microsoft/Phi-3.5-mini-instruct", "phi-3-mini"),
    ],
)
def test_marks_of_tuning_leave_a_shape_alone(model: str, name: str) -> None:
    assert catalog_name(model) == name


@pytest.mark.parametrize(
    "model",
    [
        "Qwen/Qwen1.5-7B",
        "codellama/CodeLlama-7b-hf",
        "mistralai/Mistral-7B-v0.3",
        "a/b",
        "",
        "2507",
    ],
)
def test_other_models_are_not_taken_for_one(model: str) -> None:
    assert catalog_name(model) is None


def test_every_alias_leads_into_the_catalog() -> None:
    assert set(_SAME.values()) <= set(catalog.catalog_names())
    assert not set(_SAME) & set(catalog.catalog_names())
