"""Scripts and commands that start a Hugging Face trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.errors import InputError, NotModelledError
from tonnage.formats import Launch, read_launch

TRAINER = "--model_name_or_path gpt2 --per_device_train_batch_size 2 --output_dir out"


def script(folder: Path, text: str, *, gpus: int | None = 8, **files: str) -> Launch:
    """The launch of a script, with files beside it."""
    for name, content in files.items():
        (folder / name.replace("_yaml", ".yaml")).write_text(content, encoding="utf-8")
    path = folder / "run.sh"
    path.write_text(text, encoding="utf-8")
    return read_launch(str(path), gpus=gpus)


def test_accelerates_options_stand_over_its_file(tmp_path: Path) -> None:
    text = f"accelerate launch --num_processes 16 --config_file c/fsdp.yaml train.py {TRAINER}\n"
    config = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n"
    config += "fsdp_config: {fsdp_version: 2}\n"
    read = script(tmp_path, text, fsdp_yaml=config)
    assert read.kind == "accelerate + transformers"
    assert (read.plan["runtime"], read.gpus, read.plan["mbs"]) == ("accelerate-fsdp2", 16, 2)
    assert "fsdp.yaml: distributed_type" in read.used


def test_a_file_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    text = f"accelerate launch --config_file elsewhere.yaml train.py {TRAINER}\n"
    assert any("give it as a further --config" in note for note in script(tmp_path, text).notes)


@pytest.mark.parametrize(
    ("options", "runtime"),
    [
        ("--use_fsdp --fsdp_version 1", "accelerate"),
        ("--use_deepspeed --zero_stage 3", "deepspeed"),
        ("--multi_gpu", "ddp"),
    ],
)
def test_engines_of_options(tmp_path: Path, options: str, runtime: str) -> None:
    text = f"accelerate launch {options} --num_processes 8 --mixed_precision bf16 t.py {TRAINER}\n"
    assert script(tmp_path, text).plan["runtime"] == runtime


@pytest.mark.parametrize(
    ("launcher", "gpus"),
    [
        ("torchrun --nproc_per_node 4 --nnodes 2", 8),
        ("python -m torch.distributed.run --nproc_per_node=4", 4),
        ("deepspeed --num_gpus 2", 2),
        ("CUDA_VISIBLE_DEVICES=0,1,2 deepspeed", 3),
        ("CUDA_VISIBLE_DEVICES=5 python", 1),
    ],
)
def test_launchers_count_processes(tmp_path: Path, launcher: str, gpus: int) -> None:
    read = script(tmp_path, f"{launcher} train.py {TRAINER} --bf16\n", gpus=None)
    assert read.gpus == gpus
    assert read.plan["precision"] == "bf16"


def test_values_of_the_script_are_followed(tmp_path: Path) -> None:
    text = f"BATCH=4\nopts='--fsdp \"full_shard\"'\ntorchrun --nproc_per_node 8 t.py {TRAINER}"
    read = script(tmp_path, text.replace("batch_size 2", "batch_size $BATCH"))
    assert read.plan["mbs"] == 4


def test_swift(tmp_path: Path) -> None:
    text = (
        "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --train_type lora \\\n"
        "  --target_modules q_proj v_proj --max_length 2048 --deepspeed zero3\n"
    )
    read = script(tmp_path, text, gpus=None)
    assert (read.gpus, read.plan["zero"], read.plan["grad_acc"]) == (4, 3, 4)
    assert read.plan["lora_targets"] == ("q_proj", "v_proj")


def test_trl_names_its_trainer_by_the_verb(tmp_path: Path) -> None:
    text = "trl dpo --model_name_or_path Qwen/Qwen3-4B --dataset_name a --output_dir o\n"
    read = script(tmp_path, text)
    assert read.plan["mbs"] == 16
    assert not read.not_understood


def test_a_yaml_that_is_named_is_read(tmp_path: Path) -> None:
    config = "base_model: Qwen/Qwen3-8B\nsequence_len: 1024\nmicro_batch_size: 3\n"
    read = script(tmp_path, "axolotl train conf.yaml --micro-batch-size 1\n", conf_yaml=config)
    assert read.kind.startswith("axolotl")
    assert read.plan["seq"] == 1024


def test_llama_factory(tmp_path: Path) -> None:
    text = (
        "llamafactory-cli train --stage sft --do_train True --finetuning_type full "
        "--model_name_or_path Qwen/Qwen3-4B --template qwen --bf16 True "
        "--per_device_train_batch_size 1 --cutoff_len 1024\n"
    )
    read = script(tmp_path, text)
    assert (read.plan["seq"], read.plan["precision"]) == (1024, "bf16-amp")


def test_unknown_options_are_reported(tmp_path: Path) -> None:
    read = script(tmp_path, f"torchrun --nproc_per_node 2 t.py {TRAINER} --moon_phase 3\n")
    assert read.not_understood == ("moon_phase",)


@pytest.mark.parametrize(
    ("program", "sequences", "held"),
    [
        ("examples/scripts/dpo.py", 2, True),
        ("scripts/run_dpo.py", 2, True),
        ("examples/scripts/orpo.py", 2, False),
        ("examples/scripts/cpo.py", 2, False),
        ("examples/scripts/kto.py", 1, True),
        ("scripts/run_sft.py", 1, False),
        ("-m trl.scripts.sft", 1, False),
    ],
)
def test_a_trainer_is_told_by_its_programs_name(
    tmp_path: Path, program: str, sequences: int, held: bool
) -> None:
    options = "--dataset_name a --beta 0.1 --per_device_train_batch_size 3 --output_dir o"
    text = f"python {program} --model_name_or_path Qwen/Qwen3-4B {options}\n"
    read = script(tmp_path, text)
    assert read.kind == "trl"
    assert read.plan["mbs"] == 3 * sequences
    assert read.plan.get("reference_model", False) is held


@pytest.mark.parametrize("program", ["grpo", "ppo", "reward_modeling"])
def test_a_trainer_that_is_not_modelled_is_told_by_its_programs_name(
    tmp_path: Path, program: str
) -> None:
    text = f"accelerate launch examples/scripts/{program}.py --model_name_or_path a/b\n"
    with pytest.raises(NotModelledError, match="is no training launch that is modelled"):
        script(tmp_path, text)


@pytest.mark.parametrize(
    "program", ["scripts/pissa_init.py", "merge_lora.py", "tools/convert_ckpt.py", "eval_mmlu.py"]
)
def test_a_program_that_prepares_or_uses_a_model_is_no_launch(tmp_path: Path, program: str) -> None:
    text = f"python {program} --model_name_or_path Qwen/Qwen3-4B --output_dir o\n"
    with pytest.raises(InputError, match="is no training launch"):
        script(tmp_path, text)


def test_a_command_that_only_names_files_is_a_command(tmp_path: Path) -> None:
    read = script(tmp_path, "llamafactory-cli train elsewhere.yaml\n")
    assert read.kind == "command"
    assert read.lacks == ("model", "seq")


@pytest.mark.parametrize(
    "opens", ["cat > $CONF <<EOF", "cat <<-EOF >$CONF", 'cat << "EOF" > "$CONF"', "tee $CONF <<EOF"]
)
def test_an_engines_file_that_the_script_writes_is_read(tmp_path: Path, opens: str) -> None:
    stage = "3" if '"EOF"' in opens else "${STAGE}"
    text = (
        f"STAGE=3\nCONF=made/ds.json\n{opens}\n"
        f'{{"zero_optimization": {{"stage": {stage}}}, "bf16": {{"enabled": true}}}}\nEOF\n'
        f"torchrun --nproc_per_node=8 train.py {TRAINER} --deepspeed $CONF\n"
    )
    read = script(tmp_path, text)
    assert (read.plan["runtime"], read.plan["zero"]) == ("deepspeed", 3)
    assert read.kind == "deepspeed + transformers"


def test_a_written_file_that_depends_on_what_is_not_said_is_asked_for(tmp_path: Path) -> None:
    text = (
        'cat > ds.json <<EOF\n{"zero_optimization": {"stage": $STAGE}}\nEOF\n'
        f"torchrun --nproc_per_node=8 train.py {TRAINER} --deepspeed ds.json\n"
    )
    assert any("not beside this file" in note for note in script(tmp_path, text).notes)
