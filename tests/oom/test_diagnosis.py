"""A failure beside an estimate: the tensor that was asked for is named."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage import Plan, load, parse_cluster
from tonnage.cli.app import main
from tonnage.ledger import stage_ledgers
from tonnage.ledger.head import logits
from tonnage.memory.allocator import Policy
from tonnage.oom.diagnosis import diagnose, diagnose_run
from tonnage.oom.log import failure
from tonnage.oom.suspects import suspects
from tonnage.plan import resolve
from tonnage.quantity import GIB, format_bytes

LLAMA = load("llama-3.1-8b")
NODE = parse_cluster("8xH100")


def message(size: int) -> str:
    """What PyTorch would print when a tensor of this size does not fit."""
    segment = Policy.segment_bytes(Policy.round(size))
    return (
        f"CUDA out of memory. Tried to allocate {format_bytes(segment)}. GPU 0 has a total "
        "capacity of 79.11 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this "
        "process has 78.11 GiB memory in use. Of the allocated memory 75.00 GiB is allocated by "
        "PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."
    )


@settings(max_examples=20, deadline=None)
@given(
    mbs=st.sampled_from([1, 2, 3]),
    seq=st.sampled_from([2048, 4096, 8192]),
    tp=st.sampled_from([1, 2, 4]),
)
def test_any_tensor_of_a_run_is_found_again(mbs: int, seq: int, tp: int) -> None:
    resolved = resolve(Plan(mbs=mbs, seq=seq, tp=tp), LLAMA, NODE)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    wanted = logits(resolved.setting)
    found = failure(message(int(wanted.bytes))).message
    assert found is not None
    assert found.tried is not None
    named = suspects(resolved.setting, ledgers, found, "forward")
    assert wanted.name in [each.name for each in named]
    for each in named:
        assert abs(each.segment - found.tried) <= found.unit


def test_the_logits_in_fp32_are_named_at_the_loss() -> None:
    size = 2 * 8192 * 128256 * 4
    text = 'Traceback (most recent call last):\n  File "x.py", line 3, in cross_entropy\n'
    plan = Plan(runtime="transformers", mbs=2, seq=8192)
    found = diagnose_run(failure(text + message(size)), LLAMA, plan, NODE)
    assert found.run is not None
    assert found.run.suspects[0].moment == "loss"
    assert "logits" in found.run.suspects[0].name
    assert found.run.expected == found.run.answer.memory.stages[0].instants["loss"]
    assert any(change.fields == {"loss": "linear"} for change in found.run.changes)


def test_a_small_segment_names_nobody() -> None:
    found = diagnose_run(failure(message(5 * 2**20)), LLAMA, Plan(), NODE)
    assert "1 to 10 MiB" in found.size
    assert found.run is not None
    assert found.run.suspects == ()


def test_fragmentation_is_answered_with_the_allocator_first() -> None:
    text = message(2 * GIB).replace("and 1.00 GiB is reserved", "and 9.00 GiB is reserved")
    found = diagnose(failure(text.replace("78.11", "86.11")))
    assert found.verdict is not None
    assert found.verdict.cause == "fragmentation"
    assert found.advice[0].startswith("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(message(2 * 8192 * 128256 * 4))
    assert main(["oom", str(log)]) == 0
    assert capsys.readouterr().out.startswith("shortage: ")
    words = ["--gpus", "8xH100", "--runtime", "transformers", "--mbs", "2", "--seq", "8192"]
    assert main(["oom", str(log), "llama-3.1-8b", *words]) == 0
    out = capsys.readouterr().out
    assert "loss.logits_fp32" in out
    assert "--loss linear" in out


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["oom", "none.log"], "LOG"),
        (["oom", "/"], "LOG"),
        (["oom"], "LOG"),
        (["oom", "LOG", "--tp", "2"], "MODEL"),
        (["oom", "LOG", "--gpus", "8xH100"], "MODEL"),
        (["oom", "LOG", "llama-3.1-8b"], "gpus"),
    ],
)
def test_bad_input_is_one_error(
    words: list[str], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(message(GIB))
    assert main([str(log) if word == "LOG" else word for word in words]) == 2
    assert field in capsys.readouterr().err.splitlines()[0]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    log = tmp_path / "train.log"
    log.write_text(message(4 * GIB))
    assert main(["oom", str(log), "llama-3.1-8b", "--gpus", "8xH100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["cause"] == "shortage"
    assert found["failure"]["message"]["tried"] == 4 * GIB
    assert {"fields", "alters", "fits", "bytes", "seconds"} == set(found["run"]["changes"][0])


def test_a_launch_file_stands_for_model_and_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, launch = tmp_path / "train.log", tmp_path / "launch.sh"
    log.write_text(message(2 * 8192 * 128256 * 4))
    launch.write_text(
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
        "--num-attention-heads 32 --group-query-attention --num-query-groups 8 "
        "--ffn-hidden-size 14336 --seq-length 8192 --max-position-embeddings 8192 --swiglu "
        "--micro-batch-size 2 --global-batch-size 64 --vocab-size 128256 --bf16 "
        "--untie-embeddings-and-output-weights --position-embedding-type rope "
        "--normalization RMSNorm --disable-bias-linear\n"
    )
    words = ["--config", str(launch), "--gpus", "8xH100"]
    assert main(["oom", str(log), *words]) == 0
    assert "What each change saves" in capsys.readouterr().out
    assert main(["fit", *words, "--tp", "4", "--max", "mbs"]) == 0
    assert "micro-batch" in capsys.readouterr().out


def test_a_log_without_a_failure_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("all is well\n")
    assert main(["oom", str(log)]) == 1
    assert "tells of no memory" in capsys.readouterr().err


def test_the_cache_of_a_request_is_the_one_that_an_engine_computes() -> None:
    # vLLM for Llama-3.1-8B at 131,072 tokens: 16.00 GiB.
    text = (
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (4.00 GiB)."
    )
    found = diagnose_run(failure(text), LLAMA, Plan(), NODE)
    assert found.run is not None
    assert [each.bytes for each in found.run.suspects] == [16 * GIB, 128 * 1024]
    assert found.run.changes == ()


def test_what_helps_at_the_moment_that_failed_is_told_though_the_peak_lies_elsewhere() -> None:
    frames = (
        'Traceback (most recent call last):\n  File "torch/optim/adamw.py", line 606, in '
        "_multi_tensor_adamw\n    torch._foreach_sqrt(device_exp_avg_sqs)\n"
    )
    plan = Plan(runtime="transformers", mbs=1, seq=4096)
    found = diagnose_run(failure(frames + message(1002 * 2**20)), LLAMA, plan, NODE)
    run = found.run
    assert run is not None
    assert run.answer.memory.peak_instant != "optimizer step"
    fused = [change.fields for change in run.changes].index({"optimizer_step": "fused"})
    # The temporaries of a foreach step are as large as the weights in bf16.
    assert run.saved_then[fused] == pytest.approx(8_030_261_248 * 2, rel=1e-3)
    assert len(run.saved_then) == len(run.changes)
    assert not any("smaller micro-batch" in line for line in found.advice)


def test_without_a_traceback_nothing_is_said_of_a_moment() -> None:
    run = diagnose_run(failure(message(GIB)), LLAMA, Plan(), NODE).run
    assert run is not None
    assert set(run.saved_then) <= {None}
