"""Plans that a dry run refuses by name, and what the command line prints of others."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.cli.running import run
from tests.pytorch.models import MODELS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture
def llama(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["llama"]), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ("--runtime megatron", "runtime"),
        ("--runtime fsdp2 --gpus 4xH100 --pp 2", "pp"),
        ("--runtime fsdp2 --gpus 4xH100 --tp 2 --no-sp", "sp"),
        ("--runtime fsdp2 --gpus 2xH100 --tp 2 --model-code transformers", "model_code"),
        ("--runtime fsdp2 --recompute selective --recompute-modules moe", "recompute_modules"),
        ("--runtime fsdp2 --habit norm=fused", "habit norm"),
        ("--runtime fsdp2 --loss compiled", "loss"),
        ("--optimizer lion", "optimizer"),
        ("--recompute selective", "recompute"),
        ("--recompute every-2", "recompute_num_layers"),
        ("--loss chunked", "loss"),
        ("--lora-rank 4", "lora_rank"),
        ("--precision bf16-mixed", "precision"),
        ("--precision fp8", "precision"),
    ],
)
def test_refused_by_name(llama: str, flags: str, field: str) -> None:
    done = run("dryrun", llama, *flags.split(), "--json")
    assert done.code == 2
    assert done.json()["error"]["field"] == field


@pytest.mark.parametrize("model", ["mixtral", "deepseek_v3", "gpt2", "gemma2"])
def test_what_the_reference_lacks_is_named(tmp_path: Path, model: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS[model]), encoding="utf-8")
    done = run("dryrun", str(path), "--runtime", "fsdp2", "--seq", "32")
    assert done.code == 2
    assert "--model-code transformers" in " ".join(done.err.split())


def test_fsdp2_wants_one_format_a_unit(tmp_path: Path) -> None:
    """A router kept in fp32 among weights of 16 bits."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["deepseek_v3"]), encoding="utf-8")
    words = ("--runtime", "fsdp2", "--model-code", "transformers", "--precision", "bf16")
    done = run("dryrun", str(path), *words, "--seq", "32")
    assert done.code == 2
    assert "bf16-amp" in done.err


def test_a_world_on_the_command_line(llama: str) -> None:
    done = run("dryrun", llama, "--runtime", "fsdp2", "--gpus", "4xH100", "--seq", "32")
    assert done.code == 0
    for text in ("reserved", "Alive at the peak", "Collectives", "the reference transformer"):
        assert text in " ".join(done.out.split())


def test_a_report(llama: str) -> None:
    done = run("dryrun", llama, "--seq", "32", "--recompute", "full")
    assert done.code == 0
    for text in ("Beside the ledger", "saved activations, bytes", "recompute", "Assumed"):
        assert text in done.out
    assert done.out.count("equal") == 7


def test_json(llama: str) -> None:
    answer: Mapping[str, Any] = run("dryrun", llama, "--seq", "32", "--json").json()
    assert answer["schema_version"]
    assert answer["plan"]["runtime"] == "transformers"
    exact = [row for row in answer["comparison"] if row["exact"]]
    assert all(row["dry_run"] == row["ledger"] for row in exact)


def test_replicas_are_left_out_and_named(llama: str) -> None:
    done = run("dryrun", llama, "--seq", "32", "--gpus", "4xH100")
    assert done.code == 0
    assert "gradients are not reduced" in " ".join(done.out.split())
    assert "Collectives" not in done.out


def test_without_pytorch_the_extra_is_named(llama: str) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch":
            raise ImportError("no torch", name="torch")
        return real(name, *rest, **more)

    kept = {name: module for name, module in sys.modules.items() if "tonnage.pytorch" not in name}
    with (
        mock.patch.dict(sys.modules, kept, clear=True),
        mock.patch.object(builtins, "__import__", absent),
    ):
        done = run("dryrun", llama, "--seq", "32")
    assert done.code == 4
    assert "tonnage[torch]" in done.err
