"""``tonnage compare``: each side is what ``tonnage estimate`` says of the same words."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run

COMMON = ("--gpus", "8xH100", "--gbs", "64")


def test_sides_are_estimates() -> None:
    words = ("--tp 2", "qwen3-8b --gpus 16xB200", "--model", "llama-3.2-1b")
    found = json.loads(run("compare", *words, *COMMON, "--json").out)
    alone = [
        ("llama-3.2-1b", "--tp", "2", *COMMON),
        ("qwen3-8b", "--gpus", "16xB200", "--gbs", "64"),
    ]
    for side, line in zip(found["sides"], alone, strict=True):
        answer = json.loads(run("estimate", *line, "--json").out)
        answer = {name: part for name, part in answer.items() if name in side["estimate"]}
        assert side["estimate"] == answer


def test_a_saved_estimate_is_a_side(tmp_path: Path) -> None:
    saved = tmp_path / "a.json"
    saved.write_text(run("estimate", "llama-3.2-1b", *COMMON, "--json").out)
    result = run("compare", str(saved), "llama-3.2-1b --tp 2", *COMMON)
    assert result.code == 0
    assert str(saved) in result.out.replace("\n", "")
    assert "tp" in result.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("llama-3.2-1b",), "stands alone"),
        (("--tp 2", "--tp 4"), "names no model"),
        (("llama-3.2-1b", "qwen3-8b --json"), "holds --json"),
        (("llama-3.2-1b", "qwen3-8b 'x"), "cannot be read"),
        (("llama-3.2-1b", "no-such-model"), "no-such-model"),
        (("llama-3.2-1b", "qwen3-8b --foo"), "--foo is not known"),
    ],
)
def test_bad_input(words: tuple[str, ...], text: str) -> None:
    result = run("compare", *words, *COMMON)
    assert result.code == 2
    assert text in result.err


def test_a_side_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"tp": 2, "gbs": 64, "seq": 1024}', encoding="utf-8")
    words = ("--model", "gpt2", "--gpus", "8xA100", "--gbs", "64", "--seq", "1024", "--json")
    found = run("compare", f"--plan-file {file}", "--tp 4", *words).json()
    assert [side["estimate"]["plan"]["tp"] for side in found["sides"]] == [2, 4]
    shared = run("compare", "gpt2", "gpt2-medium", "--plan-file", str(file), *words[2:4], "--json")
    assert [side["estimate"]["plan"]["tp"] for side in shared.json()["sides"]] == [2, 2]


@pytest.mark.parametrize("flag", ["--timeline", "--gantt", "--html x.html", "--export megatron"])
def test_a_side_draws_and_writes_nothing(flag: str) -> None:
    result = run("compare", f"gpt2 {flag}", "gpt2", "--gpus", "8xA100")
    assert result.code == 2
    assert f"holds {flag.split()[0]}, which is no part of a plan" in result.err


def test_what_differs_is_written_as_flags_take_it() -> None:
    sides = (
        "--recompute selective --recompute-modules core_attn,mlp",
        "--recompute selective --recompute-modules layernorm --tp 8 --compile",
    )
    out = run("compare", *sides, "--model", "llama-3.2-1b", *COMMON).out
    asked = out[: out.index("What comes of it")]
    assert "core_attn,mlp" in asked
    assert not set("()[]'") & set(asked.split("What differs")[1])
    assert not {"True", "False", "None"} & set(asked.split())
