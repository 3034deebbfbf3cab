"""DeepSpeed's JSON: stages, formats, buffers, and what the Trainer fills in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import habits, launch
from tonnage.arch import load
from tonnage.formats import Launch
from tonnage.plan import Plan

AUTO = dict.fromkeys(
    ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto"
)


def read(folder: Path, **config: object) -> Launch:
    """The launch of a configuration."""
    return launch(folder, json.dumps({**AUTO, "zero_optimization": {"stage": 2}, **config}))


def test_auto_is_left_to_the_trainer(tmp_path: Path) -> None:
    found = read(tmp_path, bf16={"enabled": "auto"}, fp16={"enabled": "auto"})
    assert dict(found.plan) == {"runtime": "deepspeed", "zero": 2}
    assert not found.not_understood
    arguments = "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"
    both = launch(tmp_path, json.dumps({**AUTO, "zero_optimization": {"stage": 2}}), arguments)
    assert (both.plan["mbs"], both.plan["grad_acc"]) == (2, 4)
    assert both.plan["precision"] == "bf16-mixed-bf16-grads"
    assert both.kind == "deepspeed + transformers"


@pytest.mark.parametrize(
    ("config", "recipe"),
    [
        ({"bf16": {"enabled": True}}, "bf16-mixed-bf16-grads"),
        ({"fp16": {"enabled": True}}, "fp16-mixed"),
        ({"bf16": {"enabled": False}, "fp16": {"enabled": False}}, "fp32"),
    ],
    ids=["bf16", "fp16", "fp32"],
)
def test_formats(tmp_path: Path, config: dict[str, object], recipe: str) -> None:
    assert read(tmp_path, **config).plan["precision"] == recipe


def test_gradients_may_be_summed_and_sent_in_formats_of_their_own(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        bf16={"enabled": True},
        data_types={"grad_accum_dtype": "fp32"},
        communication_data_type="bf16",
    )
    assert (found.plan["gradients_dtype"], found.plan["reduction_dtype"]) == ("fp32", "bf16")


@pytest.mark.parametrize(
    ("zero", "size"),
    [
        ({"stage": 2, "reduce_bucket_size": 2e8, "overlap_comm": False}, 400_000_000),
        ({"stage": 2, "reduce_bucket_size": 2e8, "overlap_comm": True}, 800_000_000),
        ({"stage": 1, "overlap_comm": True}, 2_000_000_000),
        ({"stage": 3, "reduce_bucket_size": 1e6, "overlap_comm": True}, 2_000_000),
    ],
)
def test_a_bucket_is_two_where_it_overlaps(
    tmp_path: Path, zero: dict[str, object], size: int
) -> None:
    assert habits(read(tmp_path, zero_optimization=zero))["bucket_bytes"] == str(size)


def test_sizes_make_accumulation(tmp_path: Path) -> None:
    config = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}
    config |= {"gradient_accumulation_steps": 4}
    found = read(tmp_path, **config)
    assert (found.plan["mbs"], found.plan["grad_acc"]) == (2, 4)
    config = {"train_batch_size": 64, "gradient_accumulation_steps": 4}
    assert read(tmp_path, **config).plan["mbs"] == 2  # 64 over 4 steps of 8 devices


def test_a_batch_that_does_not_fit_its_devices_is_said(tmp_path: Path) -> None:
    sizes = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1}
    found = read(tmp_path, **sizes, gradient_accumulation_steps=2)
    assert found.plan["grad_acc"] == 2
    assert "gbs" not in found.plan
    assert any("batch 8 is not 1 × 2 × 8" in note for note in found.notes)


def test_what_zero_plus_plus_adds_is_not_understood_where_it_is_on(tmp_path: Path) -> None:
    zero = {"stage": 3, "zero_quantized_weights": True, "zero_hpz_partition_size": 8}
    found = read(tmp_path, zero_optimization=zero)
    names = ("zero_hpz_partition_size", "zero_quantized_weights")
    assert set(found.not_understood) == {f"zero_optimization.{name}" for name in names}
    off = {"stage": 3, "zero_quantized_weights": False, "zero_hpz_partition_size": 1}
    assert not read(tmp_path, zero_optimization=off).not_understood


def test_tensor_parallelism_inside_deepspeed_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, tensor_parallel={"autotp_size": 4})
    assert found.not_understood == ("tensor_parallel.autotp_size",)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("AdamW", "adamw"),
        ("Adam", "adam"),
        ("Lion", "lion"),
        ("Muon", "muon"),
        ("OneBitAdam", "adamw"),
    ],
)
def test_optimizers(tmp_path: Path, name: str, plan: str) -> None:
    found = read(tmp_path, optimizer={"type": name, "params": {"lr": 1e-4, "betas": [0.9, 0.95]}})
    assert found.plan["optimizer"] == plan
    assert not found.not_understood


def test_an_auto_bucket_has_the_square_of_the_width(tmp_path: Path) -> None:
    zero = {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": True}
    found = read(tmp_path, zero_optimization=zero)
    assert found.by_width == {"bucket_bytes": 2}
    model = load("qwen3-0.6b")
    fields: dict[str, Any] = dict(found.plan)
    sized = found.sized(Plan(**fields), model)
    assert dict(sized.habits) == {"bucket_bytes": str(2 * model.hidden**2)}
    assert found.sized(sized, load("llama-3.1-8b")) == sized  # what is said stands


def test_an_optimizer_on_the_host_is_weighed_there(tmp_path: Path) -> None:
    found = read(tmp_path, zero_optimization={"stage": 2, "offload_optimizer": {"device": "cpu"}})
    assert found.plan["offload_optimizer"] == 1.0
    assert not found.not_understood
