from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tonnage import Plan, estimate, load, parse_cluster

LLAMA = ("estimate", "llama-3.1-8b", "--gpus", "8xH100", "--seq", "4096", "--tp", "2")


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    result = run(*LLAMA, "--pp", "2", "--tokens", "15T", "--json")
    assert result.code == 0
    assert result.err == ""
    found: dict[str, Any] = result.json()
    return found


def test_json_has_the_documented_keys(answer: dict[str, Any]) -> None:
    assert answer["schema_version"] == 1
    assert {"parameters", "active_parameters"} <= set(answer["model"])
    assert answer["fits"] is True
    memory = answer["memory"]
    assert set(memory["peak_bytes"]) == {"allocated", "reserved", "device"}
    assert {
        "worst_rank",
        "capacity_bytes",
        "headroom_bytes",
        "categories",
        "outside_bytes",
        "range_bytes",
        "stages",
    } <= set(memory)
    assert {"per_token", "model_per_step", "hardware_per_step"} <= set(answer["flops"])
    assert {
        "seconds",
        "lower_bound_seconds",
        "tokens_per_second",
        "tokens_per_second_per_gpu",
        "mfu",
        "hfu",
        "breakdown",
    } <= set(answer["step"])
    for sent in answer["communication"]:
        assert {"kind", "axis", "bytes_per_rank", "count"} <= set(sent)
    assert answer["assumptions"]
    assert answer["not_modelled"]
    assert answer["run"]["tokens"] == 15 * 10**12


def test_the_parts_sum_to_the_whole(answer: dict[str, Any]) -> None:
    memory = answer["memory"]
    assert sum(memory["categories"].values()) == memory["peak_bytes"]["allocated"]
    for stage in memory["stages"]:
        assert sum(stage["categories"].values()) == stage["peak_bytes"]["allocated"]
    assert sum(memory["outside"].values()) == memory["outside_bytes"]
    assert sum(answer["step"]["breakdown"].values()) == pytest.approx(answer["step"]["seconds"])


def test_python_gives_the_same_numbers(answer: dict[str, Any]) -> None:
    plan = Plan(seq=4096, tp=2, pp=2)
    same = estimate(load("llama-3.1-8b"), plan, parse_cluster("8xH100")).to_dict()
    # Tuples are lists in JSON.
    kept = {name: answer[name] for name in ("run", "advice")}
    found = json.loads(json.dumps({**same, **kept}))
    assert found == answer


def test_long_names_mean_the_same() -> None:
    short = run(*LLAMA, "--pp", "2", "--mbs", "2", "--gbs", "16", "--no-sp", "--json")
    long = run(
        "estimate",
        "llama-3.1-8b",
        "--gpus=8xH100",
        "--seq-length=4_096",
        "--tensor-model-parallel-size=2",
        "--pipeline-model-parallel-size=2",
        "--micro-batch-size=2",
        "--global-batch-size=16",
        "--no-sequence-parallel",
        "--json",
    )
    assert short.code == 0
    assert short.out == long.out


def test_does_not_fit_prints_the_whole_answer() -> None:
    for words in ((), ("--json",)):
        result = run("estimate", "llama-3.1-405b", "--gpus", "8xH100", *words)
        assert result.code == 3
        assert result.err == ""
        if words:
            found = result.json()
            assert found["fits"] is False
            assert found["memory"]["headroom_bytes"] < 0
            assert found["step"]["seconds"] > 0
        else:
            assert "llama-3.1-405b does not fit" in result.out.splitlines()[0]
            assert "Not modelled" in result.out


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("none", ("none", "uniform", 1)),
        ("selective", ("selective", "uniform", 1)),
        ("full", ("full", "uniform", 1)),
        ("every-4", ("full", "uniform", 4)),
        ("sqrt", ("full", "uniform", 0)),
        ("FULL", ("full", "uniform", 1)),
    ],
)
def test_recompute_as_people_write_it(text: str, fields: tuple[str, str, int]) -> None:
    plan = run(*LLAMA, "--recompute", text, "--json").json()["plan"]
    names = ("recompute", "recompute_method", "recompute_num_layers")
    assert tuple(plan[name] for name in names) == fields


def test_lists_and_pairs() -> None:
    result = run(
        *LLAMA,
        "--lora-rank=16",
        "--lora-targets=q_proj,k_proj",
        "--lora-targets=v_proj",
        "--habit=loss=chunked",
        "--habit=matmul_workspaces = 1",
        "--json",
    )
    plan = result.json()["plan"]
    assert plan["lora_targets"] == ["q_proj", "k_proj", "v_proj"]
    assert plan["habits"] == [["loss", "chunked"], ["matmul_workspaces", "1"]]


def test_limits_take_room_away() -> None:
    free = run(*LLAMA, "--json").json()["memory"]
    limited = run(*LLAMA, "--memory-limit=70GiB", "--margin=10%", "--json").json()["memory"]
    assert limited["capacity_bytes"] == 70 * 2**30 - 7 * 2**30
    assert limited["peak_bytes"] == free["peak_bytes"]
    kept = run(*LLAMA, "--margin=2GiB", "--json").json()["memory"]
    assert kept["capacity_bytes"] == free["capacity_bytes"] - 2 * 2**30


def test_efficiency_changes_the_time_alone() -> None:
    slow, fast = (run(*LLAMA, "--efficiency", x, "--json").json() for x in ("0.3", "60%"))
    assert slow["step"]["breakdown"]["compute"] > 1.5 * fast["step"]["breakdown"]["compute"]
    assert slow["memory"] == fast["memory"]


def test_steps_give_the_run() -> None:
    found = run(*LLAMA, "--steps", "1_000", "--json").json()
    assert found["run"]["seconds"] == pytest.approx(1000 * found["step"]["seconds"])
    assert run(*LLAMA, "--steps=10", "--tokens=1T").code == 2


def test_a_config_on_stdin() -> None:
    from tonnage.arch.catalog import entries

    config = json.dumps(dict(entries()["gpt2"].config))
    result = run("estimate", "-", "--gpus", "H100", "--json", stdin=config)
    assert result.json()["model"]["parameters"] == 124_439_808


def test_explain() -> None:
    pytest.importorskip("sympy")
    text = run(*LLAMA, "--explain", "activations")
    assert text.code == 0
    assert text.out.startswith("activations = ")
    found = run(*LLAMA, "--explain", "Optimizer-States", "--json").json()
    assert found["row"] == "optimizer_states"
    assert found["total"]["formula"]
    unknown = run(*LLAMA, "--explain", "colour")
    assert unknown.code == 2
    assert "parameters" in unknown.err


def test_every_printed_category_can_be_explained() -> None:
    from tonnage.estimation import ROWS

    categories = run(*LLAMA, "--json").json()["memory"]["categories"]
    assert set(categories) <= set(ROWS)
    text = run(*LLAMA).out
    for name, size in categories.items():
        assert (f"  {name} " in text) == (size > 0)


def test_an_estimate_is_a_plan_file(tmp_path: Path) -> None:
    given = (*LLAMA[:4], "--seq=2048", "--pp=2", "--gbs=64", "--recompute=every-4", "--no-compile")
    first = run(*given, "--habit=loss=chunked", "--json")
    whole, part = tmp_path / "estimate.json", tmp_path / "plan.json"
    whole.write_text(first.out)
    part.write_text(json.dumps(first.json()["plan"]))
    for file in (whole, part):
        again = run(*LLAMA[:4], "--plan-file", str(file), "--json").json()
        for key, value in first.json().items():
            assert key == "assumptions" or again[key] == value


def test_a_plan_on_stdin() -> None:
    found = run(*LLAMA[:4], "--plan-file", "-", "--json", stdin='{"seq": 1024}')
    assert found.json()["plan"]["seq"] == 1024


def test_flags_go_before_the_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('tp = 4\nseq = 2048\nlora_targets = ["q_proj"]\nhabits = [["loss", "eager"]]\n')
    plan = run(*LLAMA[:4], "--plan-file", str(file), "--tp", "2", "--json").json()["plan"]
    assert (plan["tp"], plan["seq"], plan["lora_targets"]) == (2, 2048, ["q_proj"])


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("plan.json", '{"tp": "2"}', "tp"),
        ("plan.json", '{"tp": true}', "tp"),
        ("plan.json", '{"tp": 2.5}', "tp"),
        ("plan.json", '{"recompute": "fulll"}', "recompute"),
        ("plan.json", '{"micro_batch": 2}', "plan_file"),
        ("plan.json", '{"moe_imbalance": NaN}', "plan_file"),
        ("plan.json", "[1, 2]", "plan_file"),
        ("plan.json", "{", "plan_file"),
        ("plan.json", "[" * 100_000, "plan_file"),
        ("plan.json", '{"seq": ' + "9" * 5000 + "}", "plan_file"),
        ("plan.toml", "tp = 2001-01-01", "plan_file"),
        ("plan.toml", "tp = ", "plan_file"),
        ("plan.json", " " * 2**20 + "{}", "plan_file"),
    ],
)
def test_a_bad_plan_file(tmp_path: Path, name: str, text: str, field: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = run(*LLAMA[:4], "--plan-file", str(file), "--json")
    assert result.code == 2
    assert result.json()["error"]["field"] == field


def test_a_missing_plan_file_and_a_near_name(tmp_path: Path) -> None:
    assert "cannot be read" in run(*LLAMA, "--plan-file", str(tmp_path / "no.json")).err
    file = tmp_path / "plan.json"
    file.write_text('{"grad_ac": 1}')
    assert "hint: did you mean grad_acc" in run(*LLAMA, "--plan-file", str(file)).err


def test_a_plan_file_sets_every_field(tmp_path: Path) -> None:
    from tonnage.cli.plan_file import read_plan

    file = tmp_path / "plan.json"
    file.write_text(json.dumps(dataclasses.asdict(Plan())))
    assert read_plan(str(file)) == Plan()


def test_a_model_from_a_file(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64}
    path = tmp_path / "small.json"
    path.write_text(json.dumps({**config, "vocab_size": 100}), encoding="utf-8")
    by_flag = run("estimate", f"--model-file={path}", "--gpus=1xH100", "--json").json()
    by_place = run("estimate", str(path), "--gpus=1xH100", "--json").json()
    assert by_flag == by_place
    assert run("estimate", "gpt2", f"--model-file={path}", "--gpus=1xH100").code == 2
    assert run("estimate", "--gpus=1xH100").code == 2
