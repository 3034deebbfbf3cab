"""Commands whose settings are a YAML file with keys set over it: torchtune's and LitGPT's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.errors import InputError, NotModelledError
from tonnage.formats import Launch, read_launch

RECIPE = """\
model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_rank: 8,
  lora_attn_modules: [q_proj, v_proj]}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: null}
dataset: {_component_: torchtune.datasets.alpaca_dataset, packed: false}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 2
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: false
"""
LITGPT = """\
checkpoint_dir: checkpoints/microsoft/phi-2
precision: bf16-true
devices: 2
train: {global_batch_size: 32, micro_batch_size: 4, max_seq_length: 512}
"""


def _script(folder: Path, text: str) -> Launch:
    (folder / "mine.yaml").write_text(RECIPE)
    (folder / "lit.yaml").write_text(LITGPT)
    path = folder / "run.sh"
    path.write_text(text)
    return read_launch(str(path))


def test_a_recipe_of_torchtune_is_its_file_and_what_is_set_over_it(tmp_path: Path) -> None:
    read = _script(
        tmp_path,
        "#!/bin/bash\nEACH=${EACH:-4}\n"
        "tune run --nnodes 2 --nproc_per_node $EACH lora_finetune_distributed \\\n"
        "  --config mine.yaml batch_size=16 model.lora_rank=32 \\\n"
        "  tokenizer.max_seq_len=4096 dataset.packed=True ~gradient_accumulation_steps\n",
    )
    assert read.kind == "torchtune"
    assert read.model == "meta-llama/Llama-3.1-8B"
    assert read.gpus == 8
    plan = read.plan
    assert (plan["mbs"], plan["lora_rank"], plan["seq"]) == (16, 32, 4096)
    assert plan["packing"] is True
    assert "grad_acc" not in plan
    assert read.lacks == ()


def test_a_recipe_for_one_device_is_told_by_its_name(tmp_path: Path) -> None:
    read = _script(tmp_path, "tune run lora_finetune_single_device --config mine.yaml\n")
    assert read.gpus == 1
    assert read.lacks == ("seq",)


def test_settings_that_are_not_beside_a_command_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="llama3/8B_full, which are not beside it"):
        _script(tmp_path, "tune run full_finetune_distributed --config llama3/8B_full\n")


@pytest.mark.parametrize("recipe", ["eleuther_eval", "dev/generate_v2", "quantize"])
def test_a_recipe_that_does_not_train_is_no_launch(tmp_path: Path, recipe: str) -> None:
    with pytest.raises(InputError, match="is no training launch: it runs"):
        _script(tmp_path, f"tune run {recipe} --config mine.yaml\n")


def test_litgpt_takes_options_over_its_file(tmp_path: Path) -> None:
    read = _script(
        tmp_path, "litgpt finetune_full --config lit.yaml --train.micro_batch_size 2 --devices 8\n"
    )
    assert read.kind == "litgpt"
    assert read.model == "microsoft/phi-2"
    assert read.gpus == 8
    plan = read.plan
    assert (plan["mbs"], plan["grad_acc"], plan["seq"]) == (2, 2, 512)
    assert "lora_rank" not in plan


@pytest.mark.parametrize(
    "words",
    [
        "finetune Qwen/Qwen3-8B",
        "finetune_lora Qwen/Qwen3-8B",
        "finetune lora --checkpoint_dir checkpoints/Qwen/Qwen3-8B",
    ],
)
def test_litgpt_fine_tunes_with_adapters_unless_told(tmp_path: Path, words: str) -> None:
    read = _script(
        tmp_path, f"litgpt {words} --lora_key true --quantize bnb.nf4 --precision bf16-true\n"
    )
    assert read.model == "Qwen/Qwen3-8B"
    assert read.plan["lora_rank"] == 8
    assert read.plan["lora_targets"] == ("q_proj", "k_proj", "v_proj")
    assert read.plan["lora_base"] == "nf4"
    assert (read.plan["mbs"], read.plan["grad_acc"], read.gpus) == (1, 16, 1)
    assert read.lacks == ("seq",)


def test_litgpt_pretrains_a_model_by_its_name_over_what_devices_there_are(tmp_path: Path) -> None:
    read = _script(
        tmp_path, "litgpt pretrain pythia-1.4b --train.max_seq_length 2048 --data TinyLlama\n"
    )
    assert read.model == "pythia-1.4b"
    assert (read.plan["mbs"], read.plan["gbs"], read.gpus) == (4, 512, None)
    assert "recompute" not in read.plan


def test_prompts_inside_attention_are_not_modelled(tmp_path: Path) -> None:
    with pytest.raises(NotModelledError, match="trains prompts inside attention"):
        _script(tmp_path, "litgpt finetune_adapter Qwen/Qwen3-8B\n")


def test_other_verbs_are_no_launch(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no training launch"):
        _script(tmp_path, "litgpt generate Qwen/Qwen3-8B --prompt hello\n")
