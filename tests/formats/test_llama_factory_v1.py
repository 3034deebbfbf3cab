"""LLaMA-Factory's second trainer, and its adapter of Megatron-Core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.reading import habits, launch
from tonnage.errors import InputError

V1 = (
    "model: Qwen/Qwen3-4B\nmodel_class: llm\ntemplate: qwen3\ntrain_dataset: data/mine.yaml\n"
    "micro_batch_size: 2\noutput_dir: out\n"
)
FSDP = "dist_config: {name: fsdp2, dcp_path: null}\n"
FACTORY = (
    "model_name_or_path: Qwen/Qwen3-30B-A3B\nstage: sft\ndo_train: true\ntemplate: qwen3\n"
    "finetuning_type: full\ncutoff_len: 4096\nper_device_train_batch_size: 1\nbf16: true\n"
    "gradient_accumulation_steps: 8\n"
)


def test_the_second_trainers_defaults(tmp_path: Path) -> None:
    read = launch(tmp_path, V1 + FSDP)
    assert read.kind == "llama-factory"
    assert read.not_understood == ()
    plan = read.plan
    assert (plan["mbs"], plan["grad_acc"], plan["seq"]) == (2, 1, 2048)
    # Weights and gradients in the checkpoint's bf16, without fp32 masters; reduced in fp32.
    assert (plan["precision"], plan["reduction_dtype"]) == ("bf16", "fp32")
    assert (plan["runtime"], plan["zero"], plan["recompute"]) == ("accelerate-fsdp2", 3, "full")


def test_a_global_batch_is_of_all_replicas(tmp_path: Path) -> None:
    read = launch(tmp_path, V1 + FSDP + "global_batch_size: 64\n")
    assert read.plan["gbs"] == 64
    assert "grad_acc" not in read.plan


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ("dist_config: {name: fsdp2, reshard_after_forward: false}", "zero", 2),
        ("dist_config: {name: fsdp2, offload_params: true}", "offload_parameters", True),
        ("dist_config: {name: ddp}", "runtime", "ddp"),
        (FSDP + "enable_activation_checkpointing: false", "recompute", None),
        (FSDP + "batching_strategy: padding_free", "packing", True),
        (FSDP + "flash_attn: flash_attention_2", "attention_version", 2),
        (FSDP + "peft_config: {name: lora, r: 16, target_modules: all}", "lora_rank", 16),
        (
            FSDP + "peft_config: {name: lora}\nquant_config: {quantization_bit: 4}",
            "lora_base",
            "nf4-dq",
        ),
        (FSDP + "bf16: false", "precision", "fp32"),
    ],
)
def test_the_second_trainers_sections(tmp_path: Path, keys: str, field: str, value: object) -> None:
    read = launch(tmp_path, V1 + keys + "\n")
    assert read.plan.get(field) == value


def test_deepspeed_is_the_file_that_a_section_names(tmp_path: Path) -> None:
    keys = "dist_config: {name: deepspeed, config_file: ds_z3_config.json}\n"
    read = launch(tmp_path, V1 + keys)
    assert (read.plan["runtime"], read.plan["zero"]) == ("deepspeed", 3)
    assert read.plan["precision"] == "bf16-mixed-bf16-grads"


def test_what_the_second_trainer_does_and_is_not_modelled_is_said(tmp_path: Path) -> None:
    keys = "dist_config: {name: fsdp2, cp_mode: ulysses, cp_size: 2}\npeft_config: {name: freeze}\n"
    read = launch(tmp_path, V1 + keys)
    assert set(read.not_understood) == {"dist_config.cp_size", "peft_config.name"}
    assert "lora_rank" not in read.plan


def test_ligers_kernels_are_fused(tmp_path: Path) -> None:
    read = launch(tmp_path, V1 + FSDP + "kernel_config: {name: liger_kernel}\n")
    assert habits(read)["norm"] == "fused"


def test_merging_an_adapter_is_no_launch(tmp_path: Path) -> None:
    text = "model: Qwen/Qwen3-4B\npeft_config: {name: lora, export_dir: merged}\n"
    with pytest.raises(InputError, match="is no training launch: it merges"):
        launch(tmp_path, text)


def test_megatrons_degrees_make_it_a_run_over_megatron(tmp_path: Path) -> None:
    keys = (
        "pipeline_model_parallel_size: 4\nexpert_model_parallel_size: 2\n"
        "use_distributed_optimizer: true\noverlap_grad_reduce: true\nmoe_grouped_gemm: true\n"
        "moe_token_dispatcher_type: alltoall\nrecompute_granularity: full\n"
    )
    read = launch(tmp_path, FACTORY + keys)
    plan = read.plan
    assert read.kind == "llama-factory"
    assert read.not_understood == ()
    assert (plan["runtime"], plan["precision"]) == ("megatron", "bf16-mixed")
    assert (plan["pp"], plan["ep"], plan["zero"], plan["grad_acc"]) == (4, 2, 1, 8)
    assert (plan["recompute"], plan["moe_dispatcher"]) == ("full", "alltoall")


def test_megatron_recomputes_nothing_and_shards_nothing_unless_told(tmp_path: Path) -> None:
    read = launch(tmp_path, FACTORY + "tensor_model_parallel_size: 2\n")
    assert (read.plan["recompute"], read.plan["zero"], read.plan["tp"]) == ("none", 0, 2)
