"""ms-swift, torchtune and LitGPT: what their keys mean for a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.reading import habits, launch
from tonnage.errors import InputError, NotModelledError

SWIFT = "model: Qwen/Qwen3-8B\ndataset: a/b\ntrain_type: {}\nmax_length: 4096\n"
TUNE = """
model:
  _component_: torchtune.models.{model}
  {more}
tokenizer: {{_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: {seq}}}
optimizer: {{_component_: {optimizer}}}
loss: {{_component_: torchtune.modules.loss.{loss}}}
batch_size: 2
gradient_accumulation_steps: 8
dtype: bf16
"""
LIT = """
checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B
precision: bf16-true
devices: {devices}
train: {{global_batch_size: 16, micro_batch_size: 2, max_seq_length: 512}}
"""


def tune(folder: Path, **words: object) -> object:
    """A torchtune recipe's launch."""
    usual = {
        "model": "llama3_1.llama3_1_8b",
        "more": "",
        "seq": 2048,
        "optimizer": "torch.optim.AdamW",
        "loss": "LinearCrossEntropyLoss",
    }
    return launch(folder, TUNE.format(**{**usual, **words})).plan


class TestSwift:
    def test_accumulation_fills_sixteen_samples(self, tmp_path: Path) -> None:
        text = SWIFT.format("lora") + "per_device_train_batch_size: 1\n"
        assert launch(tmp_path, text, gpus=4).plan["grad_acc"] == 4
        assert launch(tmp_path, text, gpus=32).plan["grad_acc"] == 1

    def test_lora_defaults(self, tmp_path: Path) -> None:
        read = launch(tmp_path, SWIFT.format("lora"))
        wanted = {"lora_rank": 8, "lora_targets": ("all",), "lora_dropout": 0.05}
        assert {**read.plan, **wanted, "recompute": "full"} == read.plan

    def test_short_names_of_deepspeed_files(self, tmp_path: Path) -> None:
        read = launch(tmp_path, SWIFT.format("full") + "deepspeed: zero2\n")
        assert (read.plan["runtime"], read.plan["zero"]) == ("deepspeed", 2)

    def test_megatron_behind_the_same_names(self, tmp_path: Path) -> None:
        text = SWIFT.format("full") + "tensor_model_parallel_size: 4\nmicro_batch_size: 2\n"
        read = launch(tmp_path, text + "global_batch_size: 32\nrecompute_granularity: full\n")
        assert read.plan["runtime"] == "megatron"
        wanted = {"tp": 4, "mbs": 2, "gbs": 32, "recompute": "full", "precision": "bf16-mixed"}
        assert {**read.plan, **wanted} == read.plan

    @pytest.mark.parametrize("key", ["rlhf_type: grpo", "rlhf_type: rm", "task_type: embedding"])
    def test_what_is_not_modelled_is_refused_by_name(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(NotModelledError, match="no training launch that is modelled"):
            launch(tmp_path, SWIFT.format("lora") + key + "\n")

    def test_ulysses_is_said(self, tmp_path: Path) -> None:
        read = launch(tmp_path, SWIFT.format("full") + "sequence_parallel_size: 4\n")
        assert read.not_understood == ("sequence_parallel_size",)

    def test_generation_is_no_launch(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no training launch"):
            launch(tmp_path, "max_new_tokens: 100\ntemperature: 0\nstream: true\n")


class TestTorchtune:
    def test_full(self, tmp_path: Path) -> None:
        plan = tune(tmp_path)
        wanted = {"mbs": 2, "grad_acc": 8, "seq": 2048, "precision": "bf16", "zero": 3}
        assert isinstance(plan, dict)
        assert {**plan, **wanted} == plan

    def test_qlora(self, tmp_path: Path) -> None:
        more = (
            "lora_rank: 64\n  lora_attn_modules: [q_proj, output_proj]\n  apply_lora_to_mlp: true"
        )
        plan = tune(tmp_path, model="llama3_1.qlora_llama3_1_8b", more=more)
        assert isinstance(plan, dict)
        assert (plan["lora_rank"], plan["lora_base"]) == (64, "nf4-dq")
        assert plan["lora_targets"] == ("q_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

    def test_a_paged_optimizer(self, tmp_path: Path) -> None:
        plan = tune(tmp_path, optimizer="bitsandbytes.optim.PagedAdamW8bit")
        assert isinstance(plan, dict)
        assert plan["optimizer"] == "pagedadam8bit"

    def test_dpo_is_pairs(self, tmp_path: Path) -> None:
        plan = tune(tmp_path, loss="DPOLoss")
        assert isinstance(plan, dict)
        assert (plan["mbs"], plan["loss"]) == (4, "eager")

    def test_a_length_of_null_is_lacking(self, tmp_path: Path) -> None:
        text = TUNE.format(
            model="gemma2.gemma2_9b", more="", seq="null", optimizer="SGD", loss="CEWithChunked"
        )
        read = launch(tmp_path, text)
        assert read.lacks == ("seq",)
        assert read.model == "google/gemma-2-9b"
        with pytest.raises(InputError, match="names no sequence length: give --seq"):
            read.require(("model",))

    @pytest.mark.parametrize("key", ["ppo_epochs: 2", "teacher_model: {_component_: a.b}"])
    def test_rollouts_and_teachers_are_refused(self, tmp_path: Path, key: str) -> None:
        text = TUNE.format(model="a.b", more="", seq=1, optimizer="SGD", loss="c")
        with pytest.raises(NotModelledError, match="no training launch that is modelled"):
            launch(tmp_path, text + key)

    def test_without_an_optimizer_it_is_no_launch(self, tmp_path: Path) -> None:
        text = "model: {_component_: a.b}\ncheckpointer: {_component_: c.d}\ntasks: [x]\n"
        with pytest.raises(InputError, match="it evaluates, generates, quantises or serves"):
            launch(tmp_path, text)


class TestLitgpt:
    def test_accumulation_is_over_the_files_own_devices(self, tmp_path: Path) -> None:
        read = launch(tmp_path, LIT.format(devices=4))
        assert (read.plan["grad_acc"], read.gpus) == (2, 4)
        assert read.plan["recompute"] == "full"  # its FSDP checkpoints every block
        assert launch(tmp_path, LIT.format(devices="auto")).plan["gbs"] == 16

    def test_lora_and_its_defaults(self, tmp_path: Path) -> None:
        text = LIT.format(devices=1) + "lora_r: 32\nlora_mlp: true\nquantize: bnb.nf4\n"
        plan = launch(tmp_path, text).plan
        assert plan["lora_targets"] == ("q_proj", "v_proj", "gate_proj", "up_proj", "down_proj")
        assert (plan["lora_base"], plan["lora_dropout"]) == ("nf4", 0.05)
        assert plan["loss"] == "upcast-in-chunks"
        assert "recompute" not in plan

    @pytest.mark.parametrize(
        ("word", "recipe"), [("bf16-mixed", "bf16-amp"), ("32-true", "fp32"), ("bf16-true", "bf16")]
    )
    def test_precision(self, tmp_path: Path, word: str, recipe: str) -> None:
        text = LIT.format(devices=1).replace("bf16-true", word)
        assert launch(tmp_path, text).plan["precision"] == recipe

    def test_a_precision_that_nobody_knows_is_an_error(self, tmp_path: Path) -> None:
        text = LIT.format(devices=1).replace("bf16-true", "fp3")
        with pytest.raises(InputError, match=r"config\.precision: fp3 is no value of this key"):
            launch(tmp_path, text)


def test_habits_are_text(tmp_path: Path) -> None:
    read = launch(tmp_path, SWIFT.format("full") + "use_liger_kernel: true\nfsdp: fsdp2\n")
    assert all(isinstance(value, str) for value in habits(read).values())
    assert read.plan["runtime"] == "accelerate-fsdp2"
