"""Constants of a model: what a launch must be told and no estimate depends on."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tonnage.arch import load, read_config
from tonnage.arch.constants import UNKNOWN, Constants, RopeScaling, Routing
from tonnage.cluster import parse_cluster
from tonnage.estimation import estimate
from tonnage.plan import Plan

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}


def test_llama_3_1_is_stretched_by_eight() -> None:
    assert load("llama-3.1-8b").constants == Constants(
        rope_base=500_000.0,
        norm_eps=1e-5,
        rope_scaling=RopeScaling(
            kind="llama3",
            factor=8.0,
            original_positions=8192,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
        ),
    )


def test_deepseek_v3_routes_by_sigmoid_in_groups() -> None:
    assert load("deepseek-v3").constants.routing == Routing(
        score="sigmoid", normalised=True, bias=True, groups=8, top_groups=4, scale=2.5
    )


@pytest.mark.parametrize(
    ("keys", "base"),
    [
        ({"rope_theta": 2e5}, 2e5),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 2e5}}, 2e5),
        ({"rope_parameters": {"full_attention": {"rope_theta": 3e5}}}, 3e5),
        ({}, None),
        ({"rope_theta": "many"}, None),
        ({"rope_theta": float("nan")}, None),
        ({"rope_theta": 10**400}, None),
        ({"rope_scaling": [1]}, None),
    ],
)
def test_a_base_that_is_no_number_is_not_known(keys: dict[str, Any], base: float | None) -> None:
    assert read_config({**LLAMA, **keys}, name="x").constants.rope_base == base


def test_no_estimate_depends_on_them() -> None:
    model, where = load("llama-3.1-8b"), parse_cluster("8xH100")
    bare = dataclasses.replace(model, constants=UNKNOWN)
    told = estimate(model, Plan(tp=2), where).to_dict()
    assert estimate(bare, Plan(tp=2), where).to_dict() == told
