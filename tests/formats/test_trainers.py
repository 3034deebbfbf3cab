"""The Trainer's arguments and the tools that extend them: what their keys mean for a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.reading import habits, launch
from tonnage.errors import InputError, NotModelledError

TRAINER = "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nblock_size: 1024\n"
TRL = "model_name_or_path: Qwen/Qwen3-4B\ndataset_name: x/y\nlearning_rate: 1e-4\n"
FACTORY = (
    "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\ndo_train: true\ntemplate: qwen3\n"
    "per_device_train_batch_size: 1\nbf16: true\n"
)
AXOLOTL = "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"


@pytest.mark.parametrize(
    ("keys", "recipe"),
    [
        ("bf16: true", "bf16"),
        ("bf16: true\ntorch_dtype: float32", "bf16-amp"),
        ("fp16: true\ntorch_dtype: float32", "fp16-amp"),
        ("torch_dtype: bfloat16", "bf16"),
        ("torch_dtype: float32", "fp32"),
        ("torch_dtype: float32\ntf32: true", "tf32"),
        ("bf16: true\nfsdp: full_shard auto_wrap", "bf16-amp"),
        ("bf16: true\nfsdp: full_shard\nuse_peft: true\nlora_r: 8", "bf16"),
        ("bf16: true\ndeepspeed: zero3.json", "bf16-mixed-bf16-grads"),
    ],
)
def test_a_recipe_is_what_is_loaded_and_what_is_computed(
    tmp_path: Path, keys: str, recipe: str
) -> None:
    read = launch(tmp_path, TRAINER + keys, kind="transformers")
    assert read.plan["precision"] == recipe


def test_batch_and_sequence(tmp_path: Path) -> None:
    read = launch(tmp_path, TRAINER)
    assert (read.plan["mbs"], read.plan["grad_acc"], read.plan["seq"]) == (2, 4, 1024)
    assert read.lacks == ("model",)


def test_fsdp_is_version_2_unless_its_keys_are_the_firsts(tmp_path: Path) -> None:
    second = launch(tmp_path, TRAINER + "fsdp: full_shard\nfsdp_config: {version: 2}\n")
    assert second.plan["runtime"] == "accelerate-fsdp2"
    keys = "fsdp: full_shard offload\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n"
    first = launch(tmp_path, TRAINER + keys)
    assert first.plan["runtime"] == "accelerate"
    assert first.plan["offload_parameters"] is True


@pytest.mark.parametrize(
    ("kwargs", "ends"), [("true", "whole"), ("false", None)], ids=["reentrant", "not"]
)
def test_reentry_keeps_the_whole_layer(tmp_path: Path, kwargs: str, ends: str | None) -> None:
    text = (
        "gradient_checkpointing: true\n"
        f"gradient_checkpointing_kwargs: {{use_reentrant: {kwargs}}}\nfsdp: full_shard\n"
    )
    read = launch(tmp_path, TRAINER + text)
    assert read.plan["recompute"] == "full"
    assert habits(read).get("recompute_ends") == ends


def test_liger_fuses_norm_activation_and_loss(tmp_path: Path) -> None:
    read = launch(tmp_path, TRAINER + "use_liger_kernel: true\n")
    fused = {"norm": "fused", "activation": "fused", "loss": "linear"}
    assert {**habits(read), **fused} == habits(read)


@pytest.mark.parametrize(
    ("name", "optimizer", "step"),
    [
        ("adamw_torch", "adamw", "foreach"),
        ("adamw_torch_fused", "adamw", "fused"),
        ("adamw_bnb_8bit", "adam8bit", None),
        ("paged_adamw_8bit", "pagedadam8bit", None),
        ("paged_adamw_32bit", "pagedadamw", None),
        ("adafactor", "adafactor", None),
        ("lion_32bit", "lion", None),
        ("galore_adamw_8bit", "adam8bit", None),
        ("nobody_knows", "adamw", None),
    ],
)
def test_optimizers(tmp_path: Path, name: str, optimizer: str, step: str | None) -> None:
    read = launch(tmp_path, TRAINER + f"optim: {name}\n")
    assert (read.plan["optimizer"], read.plan.get("optimizer_step")) == (optimizer, step)
    if name == "nobody_knows":
        assert any("not modelled: weighed as adamw" in note for note in read.notes)


def test_a_later_file_stands_and_what_differs_is_said(tmp_path: Path) -> None:
    accelerate = "distributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_processes: 8\n"
    read = launch(tmp_path, accelerate, TRAINER + "bf16: true\n")
    assert read.plan["precision"] == "bf16"
    assert any(note.startswith("mixed: a later file says bf16") for note in read.notes)


def test_files_of_one_tool_alone_are_not_joined(tmp_path: Path) -> None:
    litgpt = "checkpoint_dir: a/b\ntrain: {micro_batch_size: 1, global_batch_size: 8}\n"
    with pytest.raises(InputError, match="describes a run alone"):
        launch(tmp_path, litgpt, TRAINER)


class TestTrl:
    def test_its_own_defaults(self, tmp_path: Path) -> None:
        read = launch(tmp_path, TRL)
        assert read.kind == "trl"
        wanted = {"precision": "bf16-amp", "seq": 1024, "mbs": 8, "recompute": "full"}
        assert {**read.plan, **wanted} == read.plan

    def test_qlora(self, tmp_path: Path) -> None:
        keys = "use_peft: true\nlora_r: 16\nload_in_4bit: true\nuse_bnb_nested_quant: true\n"
        keys += "lora_target_modules: [q_proj, model.layers.3.v_proj]\n"
        keys += "lora_modules_to_save: [lm_head]\n"
        plan = launch(tmp_path, TRL + keys).plan
        assert (plan["lora_rank"], plan["lora_base"]) == (16, "nf4-dq")
        assert (plan["lora_targets"], plan["lora_saved"]) == (("q_proj", "v_proj"), ("head",))
        plain = launch(tmp_path, TRL + keys.replace("true\nuse_bnb_nested_quant: true", "true"))
        assert plain.plan["lora_base"] == "nf4"

    def test_a_rank_without_a_switch_is_no_adapter_where_the_switch_is_off(
        self, tmp_path: Path
    ) -> None:
        assert "lora_rank" not in launch(tmp_path, TRL + "use_peft: false\nlora_r: 16\n").plan

    def test_preferences_are_pairs(self, tmp_path: Path) -> None:
        text = TRL + "beta: 0.1\nmax_prompt_length: 512\nper_device_train_batch_size: 3\n"
        read = launch(tmp_path, text)
        assert read.plan["mbs"] == 6
        assert any("reference model" in note for note in read.notes)

    @pytest.mark.parametrize("key", ["num_generations: 8", "num_ppo_epochs: 4"])
    def test_rollouts_are_refused_by_name(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(NotModelledError, match="is no training launch that is modelled"):
            launch(tmp_path, TRL + key + "\n")


class TestLlamaFactory:
    def test_full_fine_tuning_casts_what_trains(self, tmp_path: Path) -> None:
        full = launch(tmp_path, FACTORY + "finetuning_type: full\n")
        assert full.plan["precision"] == "bf16-amp"
        pure = launch(tmp_path, FACTORY + "finetuning_type: full\npure_bf16: true\n")
        assert pure.plan["precision"] == "bf16"

    def test_lora_is_the_default_and_recomputes_with_reentry(self, tmp_path: Path) -> None:
        read = launch(tmp_path, FACTORY, gpus=1)
        wanted = {"lora_rank": 8, "lora_targets": ("all",), "recompute": "full", "seq": 2048}
        assert {**read.plan, **wanted} == read.plan
        assert read.plan["precision"] == "bf16"
        assert habits(read)["recompute_ends"] == "whole"
        off = launch(tmp_path, FACTORY + "disable_gradient_checkpointing: true\n")
        assert "recompute" not in off.plan

    @pytest.mark.parametrize(
        ("keys", "base"),
        [
            ("quantization_bit: 4", "nf4-dq"),
            ("quantization_bit: 4\ndouble_quantization: false", "nf4"),
            ("quantization_bit: 8", "int8"),
            ("model_name_or_path: x/Meta-Llama-3-8B-Instruct-AWQ", "gptq4-g128"),
        ],
    )
    def test_bases(self, tmp_path: Path, keys: str, base: str) -> None:
        text = FACTORY if "model_name" not in keys else FACTORY.split("\n", 1)[1]
        assert launch(tmp_path, text + keys + "\n").plan["lora_base"] == base

    def test_a_deepspeed_file_of_its_own_is_known_by_name(self, tmp_path: Path) -> None:
        keys = "finetuning_type: full\ndeepspeed: examples/deepspeed/ds_z3_offload_config.json\n"
        read = launch(tmp_path, FACTORY + keys)
        assert (read.plan["runtime"], read.plan["zero"]) == ("deepspeed", 3)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("model_name_or_path: a/b\ntemplate: q\ninfer_backend: vllm\n", "do_train"),
            ("model_name_or_path: a/b\ntemplate: q\nexport_dir: out\n", "merges"),
        ],
    )
    def test_chat_and_export_are_no_launches(self, tmp_path: Path, text: str, why: str) -> None:
        with pytest.raises(InputError, match=f"is no training launch: .*{why}"):
            launch(tmp_path, text)

    @pytest.mark.parametrize("stage", ["ppo", "rm"])
    def test_stages_that_are_not_modelled(self, tmp_path: Path, stage: str) -> None:
        with pytest.raises(NotModelledError, match="no training launch that is modelled"):
            launch(tmp_path, FACTORY.replace("sft", stage))

    def test_frozen_layers_are_said(self, tmp_path: Path) -> None:
        read = launch(tmp_path, FACTORY + "finetuning_type: freeze\nfreeze_trainable_layers: 2\n")
        assert "finetuning_type" in read.not_understood


class TestAxolotl:
    def test_its_own_names(self, tmp_path: Path) -> None:
        keys = "gradient_accumulation_steps: 4\nbf16: auto\ngradient_checkpointing: true\n"
        keys += "optimizer: adamw_torch_fused\nflash_attention: true\nnum_epochs: 1\n"
        read = launch(tmp_path, AXOLOTL + keys)
        wanted = {"mbs": 2, "grad_acc": 4, "seq": 4096, "recompute": "full", "precision": "bf16"}
        assert {**read.plan, **wanted, "attention_version": 2} == read.plan
        assert read.model == "llama-3.1-8b"
        assert not read.not_understood

    def test_qlora_double_quantises(self, tmp_path: Path) -> None:
        keys = "adapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_target_linear: true\n"
        plan = launch(tmp_path, AXOLOTL + keys).plan
        assert (plan["lora_base"], plan["lora_targets"]) == ("nf4-dq", ("all",))

    def test_a_pattern_of_targets_is_read_and_never_run(self, tmp_path: Path) -> None:
        hostile = "(a+)+" * 50 + "(q|k)_proj"
        keys = f"adapter: lora\nlora_r: 8\nlora_target_modules: '{hostile}'\n"
        assert launch(tmp_path, AXOLOTL + keys).plan["lora_targets"] == ("q_proj", "k_proj")

    def test_losses_without_logits(self, tmp_path: Path) -> None:
        keys = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"
        assert habits(launch(tmp_path, AXOLOTL + keys))["loss"] == "linear"
        keys = "liger_fused_linear_cross_entropy: true\n"
        assert habits(launch(tmp_path, AXOLOTL + keys))["loss"] == "linear"

    def test_a_mesh(self, tmp_path: Path) -> None:
        keys = "dp_shard_size: 2\ndp_replicate_size: 2\ntensor_parallel_size: 2\n"
        read = launch(
            tmp_path, AXOLOTL + keys + "fsdp_version: 2\nfsdp_config: {offload_params: false}\n"
        )
        assert read.plan["runtime"] == "accelerate-fsdp2"
        assert read.gpus == 8
        assert (read.plan["tp"], read.plan["hsdp_shard"]) == (2, 2)

    def test_synchronising_every_batch_keeps_gradients_sharded(self, tmp_path: Path) -> None:
        keys = "fsdp: [full_shard]\naccelerator_config:\n  gradient_accumulation_kwargs:\n"
        read = launch(tmp_path, AXOLOTL + keys + "    sync_each_batch: true\n")
        assert habits(read)["accumulates_whole"] == "false"

    def test_merging_is_no_launch(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is no training launch: merge_lora"):
            launch(tmp_path, AXOLOTL + "merge_lora: true\n")

    def test_unknown_keys_are_reported(self, tmp_path: Path) -> None:
        read = launch(tmp_path, AXOLOTL + "lora_new_thing: 3\nsave_moons: true\n")
        assert read.not_understood == ("lora_new_thing", "save_moons")


@pytest.mark.parametrize(
    ("keys", "sequences", "held"),
    [
        ("beta: 0.1", 2, True),
        ("beta: 0.1\noutput_dir: data/mine-7b-orpo", 2, False),
        ("beta: 0.1\nhub_model_id: me/kto-7b", 1, True),
        ("beta: 0.1\nsimpo_gamma: 0.5", 2, False),
        ("beta: 0.1\nprecompute_ref_log_probs: false\noutput_dir: after-orpo", 2, True),
        ("output_dir: mine-orpo", 1, False),
        ("beta: 0.1\noutput_dir: corporate", 2, True),
    ],
)
def test_what_shares_dpos_keys_is_told_by_its_own_or_by_its_name(
    tmp_path: Path, keys: str, sequences: int, held: bool
) -> None:
    read = launch(tmp_path, TRL + "per_device_train_batch_size: 3\n" + keys + "\n")
    assert read.kind == "trl"
    assert read.plan["mbs"] == 3 * sequences
    assert read.plan.get("reference_model", False) is held


def test_keys_that_only_describe_are_ignored(tmp_path: Path) -> None:
    text = (
        "_description: mine\n_param_docs: {fsdp: x}\nfsdp: full_shard\nfsdp_config: {version: 2}\n"
    )
    assert launch(tmp_path, text).not_understood == ()


@pytest.mark.parametrize(
    ("keys", "unknown"),
    [
        ("qat: {weight_dtype: int4, group_size: 32}", {"qat.weight_dtype", "qat.group_size"}),
        ("dynamic_checkpoint: {enabled: false}", set()),
        ("relora: true", {"relora"}),
        ("relora: false", set()),
    ],
)
def test_a_section_of_axolotl_that_is_not_modelled_is_said(
    tmp_path: Path, keys: str, unknown: set[str]
) -> None:
    assert set(launch(tmp_path, AXOLOTL + keys + "\n").not_understood) == unknown
