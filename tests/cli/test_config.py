"""``estimate --config``: a launch file in place of MODEL and flags, which go before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run

SCRIPT = """
GPUS_PER_NODE=8
NNODES=2
ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008
    --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope
    --normalization RMSNorm --swiglu --disable-bias-linear --hidden-dropout 0
    --attention-dropout 0 --untie-embeddings-and-output-weights
    --tokenizer-type Llama2Tokenizer
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel
    --micro-batch-size 1 --global-batch-size 64 --train-iters 1000
    --bf16 --use-distributed-optimizer --lr 1e-4 --my-own-option 3
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py "${ARGS[@]}"
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def weigh(*words: str) -> Any:
    result = run("estimate", *words, "--json")
    assert result.code in (0, 3), result.out
    return result.json()


def test_a_launch_file_is_weighed_as_the_same_flags_are(script: str) -> None:
    flags = "--tp 2 --pp 2 --sp --mbs 1 --gbs 64 --seq 4096 --zero 1 --steps 1000".split()
    other = ("--no-overlap-grad-reduce", "--no-overlap-param-gather", "--precision", "bf16-mixed")
    ours = weigh("--config", script, "--gpus", "H100")
    theirs = weigh("llama-7b", "--gpus", "16xH100", *flags, *other)
    assert ours["plan"] == theirs["plan"]
    assert ours["memory"] == theirs["memory"]
    assert ours["step"] == theirs["step"]


def test_the_answer_says_what_became_of_the_keys(script: str) -> None:
    config = weigh("--config", script, "--gpus", "H100")["config"]
    assert config["kind"] == "megatron"
    assert config["not_understood"] == ["--my-own-option"]
    assert "--lr" in config["ignored"]
    assert "--hidden-size" in config["used"]
    line = run("estimate", "--config", script, "--gpus", "H100").out.splitlines()[0]
    assert line.startswith("config: megatron, ")
    assert line.endswith("not understood: --my-own-option")


def test_flags_model_and_cluster_go_before_the_file(script: str) -> None:
    answer = weigh(
        "llama-3.1-8b", "--config", script, "--gpus", "8xA100", "--gbs", "32", "--tp", "4"
    )
    assert answer["model"]["name"] == "llama-3.1-8b"
    assert answer["cluster"]["gpus"] == 8
    assert (answer["plan"]["tp"], answer["plan"]["gbs"], answer["plan"]["pp"]) == (4, 32, 2)
    assert weigh("--config", script, "--gpus", "H100", "--grad-acc", "2")["plan"]["gbs"] == 8
    assert weigh("--config", script, "--gpus", "H100", "--steps", "5")["run"]["steps"] == 5


def test_the_length_of_the_file_is_enough_for_a_cost(script: str) -> None:
    run_of = weigh("--config", script, "--gpus", "H100", "--price", "2")["run"]
    assert run_of["steps"] == 1000
    assert run_of["cost"] == pytest.approx(2 * run_of["gpu_hours"])


def test_the_vocabulary_can_be_given(script: str) -> None:
    small = weigh("--config", script, "--gpus", "H100")["model"]["parameters"]
    large = weigh("--config", script, "--gpus", "H100", "--vocab-size", "64000")
    assert large["model"]["parameters"] - small == 2 * 4096 * (64_000 - 32_000)


@pytest.mark.parametrize(
    ("drop", "words", "said"),
    [
        ("", (), "file names no device: give --gpus 16xH100"),
        ("NNODES=2", ("--gpus", "H100"), "file names no number of devices: give --gpus 8xH100"),
        ("--seq-length 4096", ("--gpus", "H100"), "file names no sequence length: give --seq"),
        (
            "--tokenizer-type Llama2Tokenizer",
            ("--gpus", "H100"),
            "file names no vocabulary size that is known: give --vocab-size",
        ),
        (
            "--num-layers 32",
            ("--gpus", "H100"),
            "file names no model that Tonnage can read: give MODEL",
        ),
    ],
)
def test_what_is_missing_is_asked_for(
    drop: str, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT.replace(drop, "") if drop else SCRIPT, encoding="utf-8")
    result = run("estimate", "--config", str(path), *words)
    assert result.code == 2
    assert said in result.err


def test_it_is_read_from_stdin_and_its_kind_can_be_named() -> None:
    named = run("estimate", "--config", "-", "--config-kind", "Megatron", "--gpus", "H100",
                stdin=SCRIPT)  # fmt: skip
    assert named.code == 0
    unknown = run("estimate", "--config", "-", "--config-kind", "fairseq", stdin=SCRIPT)
    assert unknown.code == 2
    assert "accepted: mindspeed, megatron, nanotron" in unknown.err


def test_two_sources_of_one_thing_are_refused(script: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"tp": 2}), encoding="utf-8")
    both = run("estimate", "--config", script, "--plan-file", str(plan), "--gpus", "H100")
    assert both.code == 2
    assert "given beside --config" in both.err
    alone = run("estimate", "gpt2", "--config-kind", "megatron", "--gpus", "H100")
    assert alone.code == 2
    assert "without --config" in alone.err


def test_a_model_that_cannot_be_had_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "model: {name: hf_causal_lm, pretrained_model_name_or_path: nobody/nothing}\n"
        "global_train_batch_size: 8\ndevice_train_microbatch_size: 1\nmax_seq_len: 128\n"
        "train_loader: {}\n",
        encoding="utf-8",
    )
    result = run("estimate", "--config", str(path), "--gpus", "8xH100")
    assert result.code == 2
    assert "file names the model nobody/nothing, and " in result.err
    assert result.err.rstrip().splitlines()[0].endswith("give MODEL")
    assert run("estimate", "gpt2", "--config", str(path), "--gpus", "8xH100").code == 0


def test_a_micro_batch_that_is_more_than_a_ranks_share_is_lowered(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "model: {name: hf_causal_lm, pretrained_model_name_or_path: gpt2}\n"
        "global_train_batch_size: 16\ndevice_train_microbatch_size: 16\nmax_seq_len: 128\n"
        "train_loader: {}\n",
        encoding="utf-8",
    )
    assert weigh("--config", str(path), "--gpus", "8xH100")["plan"]["mbs"] == 2


NARROW = (
    "--pp",
    "1,2",
    "--vpp",
    "1",
    "--cp",
    "1",
    "--recompute",
    "none",
    "--mbs",
    "1",
    "--top",
    "1",
)


def test_a_search_shares_what_the_file_says_and_chooses_its_knobs(script: str) -> None:
    words = ("plan", "--config", script, "--gpus", "H100", *NARROW)
    answer = run(*words, "--json").json()
    best, config = answer["plans"][0], answer["config"]
    assert best["estimate"]["cluster"]["gpus"] == 16
    shared = {"gbs": 64, "seq": 4096, "precision": "bf16-mixed", "overlap_grad_reduce": False}
    for name, value in shared.items():
        assert config["taken"][name] == best["plan"][name] == value
    assert config["searched"] == {"tp": 2, "sp": True, "pp": 2, "zero": 1}
    assert config["kind"] == "megatron"
    assert config["not_understood"] == ["--my-own-option"]
    own = weigh("--config", script, "--gpus", "H100")
    assert config["own"]["step"] == own["step"]
    assert best["estimate"]["step"]["seconds"] <= own["step"]["seconds"]
    assert best["estimate"]["run"]["steps"] == 1000
    shown = run(*words).out
    assert shown.startswith("config: megatron, ")
    assert "searched, and not kept to: --tp 2 --sp --pp 2 --zero 1" in shown
    assert "The file's plan  on 16 x H100-SXM5-80GB" in shown


def test_flags_of_a_search_go_before_the_file(script: str) -> None:
    words = ("plan", "--config", script, "--gpus", "8xH100", "--gbs", "32", "--tp", "4", *NARROW)
    plan = run(*words, "--json").json()["plans"][0]["plan"]
    assert (plan["gbs"], plan["tp"]) == (32, 4)


def test_a_search_takes_a_plan_file_alike(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"runtime": "fsdp2", "mbs": 2, "grad_acc": 4, "seq": 1024}))
    words = ("plan", "gpt2", "--plan-file", str(file), "--gpus", "4xA100", *NARROW[2:])
    answer = run(*words, "--json").json()
    assert answer["config"]["taken"] == {"runtime": "fsdp2", "gbs": 32, "seq": 1024}
    assert answer["config"]["searched"] == {"mbs": 2, "grad_acc": 4}
    assert answer["plans"][0]["plan"]["gbs"] == 32


def test_what_a_search_still_needs_is_asked_for(script: str, tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    text = Path(script).read_text(encoding="utf-8")
    path.write_text(text.replace("--micro-batch-size 1", ""), encoding="utf-8")
    assert run("plan", "--config", str(path), "--gpus", "H100", *NARROW).code == 0
    refused = run("plan", "--config", script, *NARROW)
    assert refused.code == 2
    assert "file names no device: give --gpus 16xH100" in refused.err
    blank = run("plan", "--gpus", "8xH100")
    assert blank.code == 2
    assert "MODEL is missing" in blank.err


def test_scaling_goes_on_from_the_file(script: str) -> None:
    found = run("scale", "--config", script, "--gpus", "8,32xH100", "--json").json()["points"]
    assert [point["gpus"] for point in found] == [8, 32]
    assert {point["gbs"] for point in found} == {64}
    alone = weigh("--config", script, "--gpus", "32xH100")
    assert found[1]["seconds"] == alone["step"]["seconds"]


def test_scaling_keeps_the_batch_of_a_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"mbs": 2, "grad_acc": 4, "seq": 1024, "dp": 4}))
    words = ("scale", "gpt2", "--plan-file", str(file), "--gpus", "4,8xA100", "--json")
    assert [point["gbs"] for point in run(*words).json()["points"]] == [32, 32]
    given = run(*words, "--dp", "4").json()["error"]
    assert given["field"] == "dp"


def test_a_batch_is_varied_from_the_file(script: str) -> None:
    found = run("batch", "--config", script, "--gpus", "H100", "--json").json()
    assert (found["plan"]["tp"], found["plan"]["gbs"]) == (2, 64)


def test_what_fits_is_looked_for_from_the_file(script: str) -> None:
    found = run("fit", "--config", script, "--gpus", "H100", "--max", "mbs", "--json").json()
    assert found["estimate"]["plan"]["tp"] == 2
    assert found["value"] >= 1
