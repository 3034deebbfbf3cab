"""accelerate's configuration: engines, degrees, what is offloaded, and files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.reading import habits, launch
from tonnage.errors import InputError

FSDP = """
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
num_machines: 1
fsdp_config:
  fsdp_version: {version}
  {more}
"""
DEEPSPEED = """
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 8
deepspeed_config:
  {more}
"""


@pytest.mark.parametrize(
    ("version", "runtime"), [(1, "accelerate"), (2, "accelerate-fsdp2")], ids=["fsdp1", "fsdp2"]
)
def test_the_version_of_fsdp_is_the_runtime(tmp_path: Path, version: int, runtime: str) -> None:
    text = FSDP.format(version=version, more="fsdp_activation_checkpointing: true")
    read = launch(tmp_path, text)
    assert read.plan["runtime"] == runtime
    assert read.plan["recompute"] == "full"
    # Trainable weights are cast to fp32, and gradients reduced in the mixed format.
    assert read.plan["precision"] == "bf16-amp"
    assert read.plan["reduction_dtype"] == "bf16"
    assert read.gpus == 8
    assert read.lacks == ("model", "seq")


@pytest.mark.parametrize(
    ("strategy", "zero"), [("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2), ("1", 3), ("2", 2)]
)
def test_a_sharding_strategy_is_a_stage(tmp_path: Path, strategy: str, zero: int) -> None:
    read = launch(tmp_path, FSDP.format(version=1, more=f"fsdp_sharding_strategy: {strategy}"))
    assert read.plan["zero"] == zero


def test_without_sharding_fsdp_is_ddp(tmp_path: Path) -> None:
    read = launch(tmp_path, FSDP.format(version=1, more="fsdp_sharding_strategy: NO_SHARD"))
    assert (read.plan["runtime"], read.plan["zero"]) == ("ddp", 0)


def test_parameters_that_stay_whole_are_stage_2(tmp_path: Path) -> None:
    read = launch(tmp_path, FSDP.format(version=2, more="fsdp_reshard_after_forward: false"))
    assert read.plan["zero"] == 2


def test_a_hybrid_strategy_shards_inside_a_machine(tmp_path: Path) -> None:
    text = FSDP.format(version=1, more="fsdp_sharding_strategy: HYBRID_SHARD")
    text = text.replace("num_machines: 1", "num_machines: 2").replace("es: 8", "es: 16")
    assert launch(tmp_path, text, gpus=16).plan["hsdp_shard"] == 8


def test_offloaded_parameters_are_weighed_where_they_are_modelled(tmp_path: Path) -> None:
    read = launch(tmp_path, FSDP.format(version=2, more="fsdp_offload_params: true"))
    assert read.plan["offload_parameters"] is True
    read = launch(tmp_path, DEEPSPEED.format(more="offload_param_device: cpu\n  zero_stage: 3"))
    assert "offload_parameters" not in read.plan
    assert "deepspeed_config.offload_param_device" in read.not_understood
    assert any("upper bound of its memory" in note for note in read.notes)


def test_parallelism_is_degrees_and_replicas(tmp_path: Path) -> None:
    sizes = "\n".join(
        f"  parallelism_config_{name}_size: {size}"
        for name, size in {"dp_replicate": 2, "dp_shard": 2, "tp": 2, "cp": 2}.items()
    )
    read = launch(tmp_path, FSDP.format(version=2, more="") + f"parallelism_config:\n{sizes}\n")
    assert (read.plan["tp"], read.plan["cp"], read.plan["hsdp_shard"]) == (2, 2, 4)


def test_deepspeeds_stage_is_2_where_none_is_named(tmp_path: Path) -> None:
    read = launch(tmp_path, DEEPSPEED.format(more="gradient_accumulation_steps: 4"))
    assert (read.plan["zero"], read.plan["grad_acc"]) == (2, 4)
    assert read.plan["precision"] == "bf16-mixed-bf16-grads"


def test_a_deepspeed_json_beside_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text(
        '{"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1e8}}'
    )
    read = launch(tmp_path, DEEPSPEED.format(more="deepspeed_config_file: zero.json"))
    assert read.plan["zero"] == 3
    assert habits(read)["live_parameters"] == "100000000"
    assert "zero.json: zero_optimization.stage" in read.used


def test_a_json_that_is_not_there_is_known_by_its_name(tmp_path: Path) -> None:
    text = DEEPSPEED.format(more="deepspeed_config_file: somewhere/ds_zero1.json")
    read = launch(tmp_path, text)
    assert read.plan["zero"] == 1
    assert any("stage 1 by its name" in note for note in read.notes)


def test_megatrons_degrees(tmp_path: Path) -> None:
    read = launch(
        tmp_path,
        """
distributed_type: MEGATRON_LM
mixed_precision: bf16
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_pp_degree: 2
  megatron_lm_num_micro_batches: 8
  megatron_lm_sequence_parallelism: true
  megatron_lm_recompute_activations: true
  megatron_lm_use_distributed_optimizer: true
""",
    )
    wanted = {"tp": 2, "pp": 2, "grad_acc": 8, "sp": True, "recompute": "selective", "zero": 1}
    assert {**read.plan, **wanted} == read.plan
    assert (read.plan["runtime"], read.plan["precision"]) == ("megatron", "bf16-mixed")


@pytest.mark.parametrize("what", ["MULTI_CPU", "TPU"])
def test_what_is_not_on_gpus_is_no_launch(tmp_path: Path, what: str) -> None:
    with pytest.raises(InputError, match="is no training launch"):
        launch(tmp_path, f"distributed_type: {what}\nmixed_precision: bf16\n")


def test_one_process_is_transformers_and_several_are_ddp(tmp_path: Path) -> None:
    text = "distributed_type: {}\nmixed_precision: bf16\nnum_processes: {}\n"
    assert launch(tmp_path, text.format("'NO'", 1), gpus=None).plan["runtime"] == "transformers"
    assert launch(tmp_path, text.format("MULTI_GPU", 4), gpus=None).plan["runtime"] == "ddp"


def test_an_unquoted_no_is_no(tmp_path: Path) -> None:
    read = launch(tmp_path, "distributed_type: NO\nmixed_precision: no\n", gpus=1)
    assert (read.gpus, habits(read)["autocast"]) == (1, "false")


def test_a_key_that_nobody_knows_is_not_understood(tmp_path: Path) -> None:
    read = launch(tmp_path, FSDP.format(version=2, more="fsdp_new_thing: 3") + "another: 1\n")
    assert set(read.not_understood) == {"fsdp_config.fsdp_new_thing", "another"}
