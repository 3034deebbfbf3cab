from __future__ import annotations

import pytest

from tests.cli.running import run
from tonnage.arch import catalog_names
from tonnage.version import __version__


def test_version() -> None:
    assert run("--version").out.strip() == __version__


def test_no_verb_prints_the_help() -> None:
    assert run().out == run("--help").out
    assert run().code == 0


def test_models() -> None:
    found = run("models", "--json").json()
    assert found["schema_version"] == 1
    assert [model["name"] for model in found["models"]] == list(catalog_names())
    (llama,) = run("models", "LLAMA-3.1-8B", "--json").json()["models"]
    assert llama["parameters"] == llama["active_parameters"] == 8_030_261_248
    assert (llama["layers"], llama["hidden"], llama["heads"], llama["kv_heads"]) == (
        32,
        4096,
        32,
        8,
    )
    text = run("models", "mixtral*22b")
    header, row = text.out.splitlines()
    assert header.split() == (
        "name params active layers hidden heads context family source".split()
    )
    assert row.split()[:3] == ["mixtral-8x22b", "141", "B"]


def test_napkin_time() -> None:
    words = ("napkin", "time", "--params=70B", "--tokens=15T", "--gpus=1024xH100", "--mfu=0.5")
    text = run(*words)
    assert text.code == 0
    assert text.out.startswith("144 days\n")
    assert "FLOPs = 6 · N · D" in text.out
    found = run(*words, "--json").json()
    assert found["schema_version"] == 1
    assert found["flops"] == 6.3e24
    assert round(found["days"]) == 144
    assert found["seconds"] == found["days"] * 86400


def test_napkin_time_with_a_model() -> None:
    words = ("napkin", "time", "--model=llama-3.1-8b", "--tokens=1T", "--gpus=8xH100", "--mfu=40%")
    assert "causal attention" in run(*words, "--seq=131072").out
    found = run(*words, "--seq=131072", "--json").json()
    assert found["corrected"]["full"]["flops"] > 3 * found["flops"]
    assert "error: --seq: 8k" in run(*words, "--seq=8k").err


def test_napkin_max_params() -> None:
    text = run("napkin", "max-params", "--gpus", "8xH100")
    assert text.out.startswith("53.3 B parameters at 12 bytes a parameter")
    assert "inference-int4" in text.out
    found = run("napkin", "max-params", "--gpus=8xH100", "--recipe=bf16-mixed", "--json").json()
    assert found["bytes_per_parameter"] == 18
    assert found["parameters"] == 640 * 10**9 // 18
    by_hand = run("napkin", "max-params", "--gpus=8xH100", "--recipe=16", "--json").json()
    assert by_hand["parameters"] == 40 * 10**9


@pytest.mark.parametrize("verb", [("models",), ("hardware",), ("napkin", "max-params")])
def test_text_needs_no_colour(verb: tuple[str, ...]) -> None:
    words = (*verb, "--gpus=8xH100") if "napkin" in verb else verb
    assert "\x1b" not in run(*words).out
