"""Launch files whose facts stand elsewhere than in most of their kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.test_readers import FOUNDRY, NEMO, NEOX, read
from tonnage.arch import MLP, Attention, MoE, load, read_config
from tonnage.errors import InputError, NotModelledError
from tonnage.formats import Launch, read_launch
from tonnage.formats.shell import read_script


def last(text: str) -> tuple[str, ...]:
    return read_script(text).commands[-1]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("$(expr 16 / $N)", "8"),
        ("`expr 16 / $N`", "8"),
        (r"$(expr $N \* 3)", "6"),
        ("$(expr 16 / $UNKNOWN)", "$(expr 16 / $UNKNOWN)"),
        ("$(expr length abc)", "$(expr length abc)"),
        ("$(nproc)", "$(nproc)"),
    ],
)
def test_expr_is_worked_out_and_no_other_command_is(written: str, found: str) -> None:
    assert last(f"N=2\nrun --steps {written}\n") == ("run", "--steps", found)


def test_options_quoted_with_their_values_are_cut_where_the_array_is_not_quoted() -> None:
    text = 'A=("--fp8-format hybrid" "--on")\n'
    assert last(text + "run ${A[@]}\n") == ("run", "--fp8-format", "hybrid", "--on")
    assert last(text + 'run "${A[@]}"\n') == ("run", "--fp8-format hybrid", "--on")


def test_a_blank_to_fill_in_is_a_word_and_swallows_none() -> None:
    words = last("run --save <PATH TO CHECKPOINTS> --fp16 < in.txt > out.txt\n")
    assert words == ("run", "--save", "<PATH TO CHECKPOINTS>", "--fp16")
    assert last("run <IN >OUT --a\n") == ("run", "--a")


def megatron(more: str) -> Launch:
    sizes = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32"
    rest = "--micro-batch-size 1 --global-batch-size 8 --vocab-size 96"
    return read(f"torchrun pretrain_gpt.py {sizes} {rest} {more}\n", "x.sh", "megatron")


def test_checkpointed_activations_were_whole_layers() -> None:
    plan = megatron("--checkpoint-activations --checkpoint-num-layers 2").plan
    assert (plan["recompute"], plan["recompute_num_layers"]) == ("full", 2)
    assert megatron("--recompute-activations").plan["recompute"] == "selective"


def test_a_null_key_leaves_a_default() -> None:
    found = read(NEMO + "  rampup_batch_size: null\n  odd: 3\n", "x.yaml", "nemo")
    assert "model.rampup_batch_size" in found.ignored
    assert found.not_understood == ("model.odd",)


DPO = '"train_impl": "dpo", "dpo_beta": 0.1, "pos_train_data_paths": ["a"], "pipe-'


def test_pairs_of_gpt_neox_are_two_sequences_and_a_reference() -> None:
    plain = read(NEOX, "x.yml", "gpt-neox").plan
    found = read(NEOX.replace('"pipe-', DPO), "x.yml", "gpt-neox")
    assert found.plan["mbs"] == 2 * plain["mbs"]
    assert found.plan["reference_model"] is True
    assert not found.not_understood
    alone = DPO.replace('"dpo_beta"', '"dpo_reference_free": true, "dpo_beta"')
    assert "reference_model" not in read(NEOX.replace('"pipe-', alone), "x.yml", "gpt-neox").plan
    kto = read(NEOX.replace('"pipe-', DPO.replace('"dpo"', '"kto"')), "x.yml", "gpt-neox").plan
    assert (kto["mbs"], kto["reference_model"]) == (plain["mbs"], True)


@pytest.mark.parametrize("method", ["rm", "reinforce"])
def test_what_gpt_neox_trains_otherwise_is_refused(method: str) -> None:
    text = NEOX.replace('"pipe-', f'"train_impl": "{method}", "pipe-')
    with pytest.raises(NotModelledError, match="is no training launch that is modelled"):
        read(text, "x.yml", "gpt-neox")


@pytest.mark.parametrize(
    ("file", "known"),
    [("data/20B_tokenizer.json", True), ("llama3-8b-instruct/tokenizer/tokenizer.json", False)],
)
def test_a_tokenizer_of_another_model_is_not_taken_for_neoxs(file: str, known: bool) -> None:
    found = read(NEOX.replace('"pipe-', f'"vocab-file": "{file}", "pipe-'), "x.yml", "gpt-neox")
    assert ("vocab" in found.lacks) is not known


def test_eight_bit_moments_of_gpt_neox_are_read() -> None:
    text = NEOX.replace('"pipe-', '"use_bnb_optimizer": true, "pipe-')
    assert read(text, "x.yml", "gpt-neox").plan["optimizer"] == "adam8bit"


def test_a_model_that_is_not_read_says_why() -> None:
    found = read(NEOX.replace('"flash"', '"rwkv"'), "x.yml", "gpt-neox")
    assert not found.not_understood
    with pytest.raises(InputError, match=r"read \(layers of rwkv .*\): give MODEL"):
        found.require(())
    found.require(("model",))
    flux = '[model]\nname = "flux"\nflavor = "dev"\n[training]\nseq_len = 512\n[parallelism]\n'
    with pytest.raises(InputError, match=r"flux dev is no language model"):
        read(flux, "x.toml", "torchtitan").require(())


@pytest.mark.parametrize("name", ["t5", "bart", "bert"])
def test_an_encoder_under_a_gpts_names_is_no_gpt(name: str) -> None:
    found = read(f"name: megatron_{name}\n{NEMO}", "x.yaml", "nemo")
    assert (found.architecture, found.lacks) == (None, ("model",))


def test_a_block_that_runs_beside_attention_is_told_apart_in_nemo() -> None:
    text = NEMO + "mcore_customization_config: {parallel_attention: true}\n"
    found, plain = read(text, "x.yaml", "nemo"), read(NEMO, "x.yaml", "nemo")
    assert found.architecture is not None
    assert plain.architecture is not None
    assert found.architecture.layers[0].parallel
    assert not plain.architecture.layers[0].parallel


LITGPT = """
model_name: stories15M
model_config: {name: stories15M, block_size: 256, padded_vocab_size: 32000, n_layer: 6,
  n_head: 6, n_query_groups: 6, n_embd: 288, head_size: 48, rotary_percentage: 1.0,
  parallel_residual: false, bias: false, norm_class_name: RMSNorm, mlp_class_name: LLaMAMLP,
  intermediate_size: 768}
devices: 1
train: {global_batch_size: 8, micro_batch_size: 4, tie_embeddings: true}
"""


def test_a_shape_in_litgpts_words_is_its_model() -> None:
    found = read(LITGPT, "x.yaml", "litgpt")
    ours = found.architecture
    assert ours is not None
    assert (found.model, found.lacks, found.not_understood) == (None, (), ())
    assert found.plan["seq"] == 256
    llama = {
        "model_type": "llama",
        "hidden_size": 288,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "intermediate_size": 768,
        "vocab_size": 32000,
        "max_position_embeddings": 256,
    }
    theirs = read_config(llama, name="x", source="a test")
    assert [layer.mlp for layer in ours.layers] == [layer.mlp for layer in theirs.layers]
    assert ours.layers[0].mixer_norm == theirs.layers[0].mixer_norm
    mixers = [found.layers[0].mixer for found in (ours, theirs)]
    shapes = {(m.heads, m.kv_heads, m.head_dim) for m in mixers if isinstance(m, Attention)}
    assert shapes == {(6, 6, 48)}
    assert (ours.vocab, ours.tied_embeddings) == (32_000, True)


def test_litgpts_defaults_are_pythias() -> None:
    text = "model_config: {n_layer: 32, n_embd: 4096, vocab_size: 50254, block_size: 2048}\n"
    found = read(text + "train: {micro_batch_size: 1, max_seq_length: 64}\n", "x.yaml", "litgpt")
    theirs, ours = load("pythia-6.9b"), found.architecture
    assert ours is not None
    assert ours.layers == theirs.layers
    assert ours.vocab == 50_688


def test_experts_of_llm_foundry_are_read() -> None:
    model = """model: {name: mpt_causal_lm, d_model: 128, n_heads: 2, n_layers: 2,
        expansion_ratio: 1, vocab_size: 96, ffn_config: {ffn_type: mb_dmoe, moe_num_experts: 4,
        moe_top_k: 2, moe_world_size: 1, moe_loss_weight: 0.01}}
"""
    start, end = FOUNDRY.index("model: {"), FOUNDRY.index("tokenizer:")
    found = read(FOUNDRY[:start] + model + FOUNDRY[end:], "x.yaml", "llm-foundry")
    assert found.architecture is not None
    mixture = found.architecture.layers[0].mlp
    assert isinstance(mixture, MoE)
    assert (mixture.experts, mixture.top_k) == (4, 2)
    assert not found.not_understood


def test_nanotrons_mamba_is_a_mamba() -> None:
    text = """
parallelism: {dp: 2, pp: 1, tp: 1}
tokens: {micro_batch_size: 2, sequence_length: 64, batch_accumulation_per_replica: 1}
optimizer: {zero_stage: 0, accumulate_grad_in_fp32: false}
model:
  dtype: bfloat16
  model_config: {is_mamba_config: true, d_model: 64, num_hidden_layers: 2, vocab_size: 90,
    pad_vocab_size_multiple: 8, rms_norm: true, residual_in_fp32: true, moe_config: null,
    ssm_cfg: {d_state: 16, d_conv: 4, expand: 2, dt_rank: auto, dt_min: 0.1, bias: false}}
"""
    found = read(text, "x.yaml", "nanotron")
    assert found.architecture is not None
    assert (found.architecture.family, found.architecture.vocab) == ("mamba", 96)
    assert not found.not_understood


def mindspeed(more: str) -> Launch:
    sizes = "--num-layers 6 --hidden-size 64 --num-attention-heads 4 --seq-length 32"
    rest = "--micro-batch-size 1 --global-batch-size 8 --vocab-size 96 --use-fused-rmsnorm"
    return read(f"torchrun pretrain_gpt.py {sizes} {rest} {more}\n", "x.sh", "mindspeed")


def test_stages_of_listed_layers_are_a_layout_under_mindspeed() -> None:
    found = mindspeed("--pipeline-model-parallel-size 2 --num-layer-list 2,4")
    assert found.plan["pipeline_layout"] == "Ett|ttttL"
    assert not found.not_understood


def test_gemmas_options_of_mindspeed_gate_its_block_and_narrow_every_second_layer() -> None:
    found = mindspeed("--gelu-tanh --interleave-sliding-window 16 --query-pre-attn-scalar 16")
    assert found.architecture is not None
    layers = found.architecture.layers
    assert all(isinstance(layer.mlp, MLP) and layer.mlp.gated for layer in layers)
    windows = [layer.mixer.window for layer in layers if isinstance(layer.mixer, Attention)]
    assert sorted(map(str, windows)) == 3 * ["16"] + 3 * ["None"]
    assert not found.not_understood


def test_unset_frequencies_of_experts_are_every_layer_under_mindspeed() -> None:
    more = "--num-experts 4 --moe-layer-freq -1 --first-k-dense-replace -1"
    found = mindspeed(more)
    assert found.architecture is not None
    assert all(isinstance(layer.mlp, MoE) for layer in found.architecture.layers)
    assert not found.not_understood


def test_norms_behind_a_block_are_read_under_mindspeed() -> None:
    layers = [mindspeed(more).architecture for more in ("--post-norm", "")]
    assert layers[0] is not None
    assert layers[1] is not None
    behind, plain = layers[0].layers[0], layers[1].layers[0]
    assert (behind.mixer_output_norm, behind.mlp_output_norm) == (plain.mixer_norm, plain.mlp_norm)
    assert plain.mixer_output_norm is None
    assert not mindspeed("--post-norm").not_understood


def test_experts_of_ms_swift_are_whole_under_tensor_parallelism(tmp_path: Path) -> None:
    text = """megatron sft --model Qwen/Qwen3-30B-A3B --tuner_type lora --max_length 64 \\
        --tensor_model_parallel_size 2 --expert_model_parallel_size 4 --save_interval 100 \\
        --export_model_parallel_size 4 --load_safetensors true --num_workers 4 \\
        --no_masked_softmax_fusion true\n"""
    script = tmp_path / "x.sh"
    script.write_text(text, encoding="utf-8")
    found = read_launch(str(script))
    assert found.kind == "ms-swift"
    assert (found.plan["tp"], found.plan["ep"], found.plan["etp"]) == (2, 4, 1)
    assert not found.not_understood
    script.write_text(text.replace("--num_workers 4", "--expert_tensor_parallel_size 2"))
    assert read_launch(str(script)).plan["etp"] == 2


def test_experts_of_older_gpt_neox_stand_in_every_second_layer() -> None:
    ours = read(NEOX.replace('"pipe-', '"num_experts": 4, "pipe-'), "x.yml", "gpt-neox")
    assert ours.architecture is not None
    kinds = [type(layer.mlp) for layer in ours.architecture.layers]
    assert kinds.count(MoE) == 16
    assert kinds[:2] == [MoE, MLP]


@pytest.mark.parametrize(
    ("name", "runtime", "stage"),
    [
        ("a/fsdp2_offload.json", "fsdp2", 3),
        ("fsdp.json", "fsdp", 3),
        ("b/deepspeed_zero2.yaml", "deepspeed", 2),
        ("zero_stage1_config.yaml", "deepspeed", 1),
        ("mine.yaml", "ddp", 0),
    ],
)
def test_a_configuration_that_is_not_there_is_told_by_its_name(
    tmp_path: Path, name: str, runtime: str, stage: int
) -> None:
    script = tmp_path / "x.sh"
    text = f"""accelerate launch --config_file {name} swift/cli/sft.py --model Qwen/Qwen3-8B \\
        --tuner_type full --per_device_train_batch_size 1 --max_length 64 --dataset a\n"""
    script.write_text(text, encoding="utf-8")
    found = read_launch(str(script), gpus=8)
    told = str(found.plan["runtime"])
    assert told.removeprefix("accelerate-") == runtime or (told, runtime) == ("accelerate", "fsdp")
    assert found.plan.get("zero", 0) == stage
    assert found.plan.get("offload_parameters", False) == ("offload" in name)
    assert any("give it as a further --config" in note for note in found.notes)
    assert not found.not_understood
