"""Megatron's options in each of their forms: YAML, script, list, and MindSpeed's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.arch import Architecture, Attention, LatentAttention, MoE, load
from tonnage.errors import InputError
from tonnage.formats import Launch, read_launch
from tonnage.formats.detect import detect_kind
from tonnage.formats.text import parse_document

LLAMA = {
    "--num-layers": 32,
    "--hidden-size": 4096,
    "--ffn-hidden-size": 14336,
    "--num-attention-heads": 32,
    "--group-query-attention": True,
    "--num-query-groups": 8,
    "--kv-channels": 128,
    "--seq-length": 8192,
    "--max-position-embeddings": 131072,
    "--position-embedding-type": "rope",
    "--normalization": "RMSNorm",
    "--swiglu": True,
    "--disable-bias-linear": True,
    "--untie-embeddings-and-output-weights": True,
    "--attention-dropout": 0.0,
    "--hidden-dropout": 0.0,
    "--tokenizer-type": "HuggingFaceTokenizer",
    "--tokenizer-model": "meta-llama/Llama-3.1-8B",
    "--micro-batch-size": 1,
    "--global-batch-size": 128,
    "--tensor-model-parallel-size": 2,
    "--pipeline-model-parallel-size": 4,
    "--num-layers-per-virtual-pipeline-stage": 4,
    "--context-parallel-size": 2,
    "--sequence-parallel": True,
    "--use-distributed-optimizer": True,
    "--overlap-grad-reduce": True,
    "--bf16": True,
    "--recompute-granularity": "selective",
    "--recompute-modules": "mlp",
    "--train-iters": 1000,
    "--lr": 3e-4,
    "--wandb-project": "a run",
}


def words(options: dict[str, Any]) -> list[str]:
    return [
        word
        for name, value in options.items()
        for word in ([name] if value is True else [name, str(value)])
    ]


def read(text: str, name: str) -> Launch:
    document = parse_document(name, text)
    return detect_kind(document, name).read(document)


def as_yaml(options: dict[str, Any]) -> Launch:
    lines = [f"  {name}: {json.dumps(value)}" for name, value in options.items()]
    return read("ENV_VARS:\n  A: 1\nMODEL_ARGS:\n" + "\n".join(lines), "model_config.yaml")


def as_script(options: dict[str, Any]) -> Launch:
    array = " \\\n    ".join(f"'{word}'" for word in words(options))
    return read(f"ARGS=({array})\ntorchrun pretrain_gpt.py ${{ARGS[@]}}\n", "train.sh")


def as_string(options: dict[str, Any]) -> Launch:
    quoted = [f"'{word}'" if " " in word else word for word in words(options)]
    text = " ".join(quoted)
    return read(f'OPTIONS="{text}"\neval "python -u pretrain_gpt.py $OPTIONS"\n', "train.sh")


def as_list(options: dict[str, Any]) -> Launch:
    return read(json.dumps(words(options)), "args.json")


def as_lines(options: dict[str, Any]) -> Launch:
    lines = []
    for name, value in options.items():
        lines.append(name if value is True else f"{name} '{value}'")
    return read("\n".join(lines), "args.txt")


FORMS = (as_yaml, as_script, as_string, as_list, as_lines)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_one_launch_in_each_form_is_one_plan(form: Any) -> None:
    launch = form(LLAMA)
    assert launch.kind == "megatron"
    assert dict(launch.plan) == {
        "runtime": "megatron",
        "tp": 2,
        "pp": 4,
        "cp": 2,
        "sp": True,
        "vpp": 2,
        "mbs": 1,
        "gbs": 128,
        "seq": 8192,
        "precision": "bf16-mixed",
        "recompute": "selective",
        "recompute_modules": ("mlp",),
        "attention": "flash",
        "zero": 1,
        "overlap_grad_reduce": True,
        "overlap_param_gather": False,
    }
    assert launch.steps == 1000
    assert not launch.lacks
    assert not launch.not_understood
    same_layers(launch.architecture, load("llama-3.1-8b"))


def same_layers(ours: Architecture | None, theirs: Architecture) -> None:
    """One shape, whatever the classes call it."""
    assert ours is not None
    assert (ours.hidden, ours.vocab, len(ours.layers)) == (
        theirs.hidden,
        theirs.vocab,
        len(theirs.layers),
    )
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        assert type(one.mixer) is type(other.mixer)
        if isinstance(one.mixer, Attention) and isinstance(other.mixer, Attention):
            assert (one.mixer.heads, one.mixer.kv_heads, one.mixer.head_dim) == (
                other.mixer.heads,
                other.mixer.kv_heads,
                other.mixer.head_dim,
            )
        else:
            assert one.mixer == other.mixer
        assert type(one.mlp) is type(other.mlp)
        if isinstance(one.mlp, MoE) and isinstance(other.mlp, MoE):
            assert (one.mlp.experts, one.mlp.top_k) == (other.mlp.experts, other.mlp.top_k)
            assert one.mlp.expert == other.mlp.expert
            assert one.mlp.shared == other.mlp.shared
        else:
            assert one.mlp == other.mlp


def test_the_defaults_are_those_of_megatron() -> None:
    bare = {
        name: LLAMA[name]
        for name in ("--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length")
    }
    launch = as_yaml({**bare, "--micro-batch-size": 2, "--max-position-embeddings": 8192})
    plan = launch.plan
    assert (plan["precision"], plan["zero"], plan["sp"], plan["grad_acc"]) == ("fp32", 0, False, 1)
    assert launch.lacks == ("vocab",)
    facts = launch.architecture
    assert facts is not None
    layer = facts.layers[0]
    assert layer.dropout == facts.embedding_dropout == 0.1
    assert facts.tied_embeddings
    assert facts.learned_positions == 8192
    assert isinstance(layer.mixer, Attention)
    assert layer.mixer.kv_heads == 32
    assert layer.mixer.qkv_bias
    assert layer.mixer.output_bias


MLA = {
    "--multi-latent-attention": True,
    "--q-lora-rank": 1536,
    "--kv-lora-rank": 512,
    "--qk-head-dim": 128,
    "--qk-pos-emb-head-dim": 64,
    "--v-head-dim": 128,
}
DEEPSEEK = {
    **{name: LLAMA[name] for name in ("--normalization", "--swiglu", "--disable-bias-linear")},
    **{name: LLAMA[name] for name in ("--attention-dropout", "--hidden-dropout", "--bf16")},
    "--untie-embeddings-and-output-weights": True,
    "--hidden-size": 7168,
    "--ffn-hidden-size": 18432,
    "--num-attention-heads": 128,
    "--seq-length": 4096,
    "--max-position-embeddings": 163840,
    "--micro-batch-size": 1,
    "--global-batch-size": 3840,
    "--vocab-size": 129280,
    "--num-experts": 256,
    "--moe-router-topk": 8,
    "--tensor-model-parallel-size": 4,
    "--pipeline-model-parallel-size": 8,
    "--sequence-parallel": True,
    "--use-flash-attn": True,
    "--use-distributed-optimizer": True,
    "--moe-token-dispatcher-type": "alltoall",
}


def test_deepseek_in_megatrons_words_is_deepseek() -> None:
    launch = as_yaml(
        {
            **DEEPSEEK,
            **MLA,
            "--num-layers": 61,
            "--moe-layer-freq": "([0]*3+[1]*58)",
            "--moe-ffn-hidden-size": 2048,
            "--moe-shared-expert-intermediate-size": 2048,
            "--pipeline-model-parallel-layout": "Et*8|(t*8|)*6t*5L",
            "--expert-model-parallel-size": 8,
        }
    )
    same_layers(launch.architecture, load("deepseek-v3"))
    assert launch.plan["vpp"] == 1


MINDSPEED = """
source /usr/local/Ascend/ascend-toolkit/set_env.sh
NPUS_PER_NODE=8
NNODES=64
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))
TP=4
ARGS="
    --multi-head-latent-attention \\
    --qk-rope-head-dim 64 --qk-nope-head-dim 128 --q-lora-rank 1536 --kv-lora-rank 512 \\
    --v-head-dim 128 \\
    --num-layers 64 --noop-layers 61,62,63 \\
    --first-k-dense-replace 3 --n-shared-experts 1 --moe-intermediate-size 2048 \\
    --expert-model-parallel-size 2 --moe-tp-extend-ep --reuse-fp32-param \\
    COMMON
"
python -m torch.distributed.launch --nproc_per_node $NPUS_PER_NODE --nnodes $NNODES \\
    pretrain_gpt.py $ARGS | tee logs/train.log
"""


def test_deepseek_in_mindspeeds_words_is_deepseek() -> None:
    text = MINDSPEED.replace("COMMON", " ".join(words(DEEPSEEK)))
    launch = read(text, "train.sh")
    assert launch.kind == "mindspeed"
    assert launch.gpus == 512
    same_layers(launch.architecture, load("deepseek-v3"))
    plan = launch.plan
    assert (plan["tp"], plan["pp"], plan["ep"], plan["etp"]) == (4, 8, 8, 1)
    assert plan["pipeline_layout"] == "E" + "|".join(["t" * 8] * 7 + ["t" * 5]) + "L"
    assert launch.not_understood == ("--reuse-fp32-param",)


def test_the_same_facts_make_one_plan_for_megatron_and_mindspeed() -> None:
    megatron = as_script({**LLAMA, "--use-flash-attn": True})
    mindspeed = as_script({**LLAMA, "--use-flash-attn": True, "--use-fused-rmsnorm": True})
    assert (megatron.kind, mindspeed.kind) == ("megatron", "mindspeed")
    assert {**mindspeed.plan, "runtime": ""} == {**megatron.plan, "runtime": ""}
    assert mindspeed.architecture is not None
    assert megatron.architecture is not None
    assert mindspeed.architecture.layers == megatron.architecture.layers


def test_what_is_not_modelled_is_left_out_and_said() -> None:
    launch = as_yaml({**LLAMA, "--mtp-num-layers": 1, "--optimizer-cpu-offload": True, "--odd": 3})
    left = {path.rsplit(".", 1)[-1] for path in launch.not_understood}
    assert "--odd" in left
    for option, field in (("--mtp-num-layers", "mtp"), ("--optimizer-cpu-offload", "offload")):
        assert (option in left) != any(name.startswith(field) for name in launch.plan)


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        ({"--encoder-num-layers": 6}, "model"),
        ({"--hybrid-attention-ratio": 0.1}, "model"),
        ({"--tokenizer-model": "$HOME/tokenizer.model"}, "vocab"),
        ({"--seq-length": "$SEQ"}, "seq"),
    ],
)
def test_what_a_launch_lacks_is_named(options: dict[str, Any], lacks: str) -> None:
    launch = as_yaml({**LLAMA, **options})
    assert lacks in launch.lacks
    with pytest.raises(InputError, match=r"file names no .*: give "):
        launch.require(())
    launch.require((lacks,))


def test_a_value_of_another_type_names_its_option() -> None:
    with pytest.raises(InputError, match=r"config\.MODEL_ARGS\.--seq-length: long "):
        as_yaml({**LLAMA, "--seq-length": "long"})


@pytest.mark.parametrize("program", ["tools/run_text_generation_server.py", "convert.py"])
def test_a_script_that_trains_nothing_is_no_launch(program: str, tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(f"python {program} {' '.join(words(LLAMA)[:-2])}", encoding="utf-8")
    with pytest.raises(InputError, match="is no training launch: it runs"):
        read_launch(str(path))


def test_latent_attention_has_no_kv_channels() -> None:
    launch = as_yaml({**DEEPSEEK, **MLA, "--num-layers": 4, "--kv-channels": 128})
    assert launch.architecture is not None
    assert isinstance(launch.architecture.layers[0].mixer, LatentAttention)


def test_a_pattern_of_letters_is_a_hybrid() -> None:
    launch = as_yaml({**LLAMA, "--hybrid-layer-pattern": "M-M*-/MM", "--swiglu": True})
    assert launch.architecture is not None
    kinds = [type(layer.mixer or layer.mlp).__name__ for layer in launch.architecture.layers]
    assert kinds == ["Mamba2", "MLP", "Mamba2", "Attention", "MLP"]
    assert not launch.architecture.tied_embeddings


def test_a_layout_that_a_shell_reads_again_is_the_layout() -> None:
    options = {**LLAMA, "--pipeline-model-parallel-size": 2, "--num-layers": 4}
    plain = as_yaml({**options, "--pipeline-model-parallel-layout": "Et*2|t*2L"})
    escaped = as_yaml({**options, "--pipeline-model-parallel-layout": "Et*2\\|t*2L"})
    assert escaped.plan["pipeline_layout"] == plain.plan["pipeline_layout"] == "Et*2|t*2L"


def test_a_teacher_that_is_distilled_is_said_to_be_left_out() -> None:
    options = {**LLAMA, "--export-kd-teacher-load": "somewhere", "--export-te-mcore-model": True}
    launch = as_yaml(options)
    assert launch.not_understood == ("MODEL_ARGS.--export-kd-teacher-load",)
    assert any("left out" in note for note in launch.notes)


@pytest.mark.parametrize("form", [as_yaml, as_script, as_list])
def test_swiglus_input_in_fp8_is_read(form: Any) -> None:
    assert form(LLAMA).plan.get("activation_func_fp8_input_store", False) is False
    launch = form({**LLAMA, "--activation-func-fp8-input-store": True})
    assert launch.plan["activation_func_fp8_input_store"] is True
    assert not launch.not_understood
