"""Facts that the files of other trainers state, each against an independent statement of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.test_megatron import same_layers
from tonnage.arch import load
from tonnage.errors import InputError, TonnageError
from tonnage.formats import KINDS, Document, Launch
from tonnage.formats.detect import detect_kind
from tonnage.formats.keys import Fields
from tonnage.formats.text import parse_document


def read(text: str, name: str, kind: str) -> Launch:
    document = parse_document(name, text)
    found = detect_kind(document, name)
    assert found.name == kind
    return found.read(document)


NEOX = """
{
  "pipe-parallel-size": 4, "model-parallel-size": 2,
  "num-layers": 32, "hidden-size": 4096, "num-attention-heads": 32,
  "seq-length": 2048, "max-position-embeddings": 2048, "pos-emb": "rotary", "rotary-pct": 0.25,
  "no-weight-tying": true, "gpt-j-residual": true, "attention-config": [[["flash"], 32]],
  "hidden-dropout": 0, "attention-dropout": 0,
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000},
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 32,
  "checkpoint-activations": true, "checkpoint-num-layers": 2,
  "optimizer": {"type": "Adam", "params": {"lr": 0.0001}},
  "fp16": {"enabled": true}, "tokenizer-type": "HFTokenizer", "train-iters": 150000,
}
"""


def test_pythia_in_gpt_neox_words_is_pythia() -> None:
    launch = read(NEOX, "6-9B.yml", "gpt-neox")
    theirs, ours = load("pythia-6.9b"), launch.architecture
    assert ours is not None
    # Its 50,277 tokens are padded to 50,432 rows at this degree of tensor parallelism.
    assert -(-ours.vocab // (128 * 2)) * 128 * 2 == theirs.vocab
    assert ours.layers == theirs.layers
    plan = launch.plan
    assert (plan["pp"], plan["tp"], plan["zero"], plan["mbs"], plan["grad_acc"]) == (4, 2, 1, 4, 32)
    assert (plan["recompute"], plan["recompute_num_layers"]) == ("full", 2)
    assert (plan["precision"], plan["attention"], launch.steps) == ("fp16-mixed", "flash", 150_000)
    assert not launch.not_understood


def test_a_mixture_of_gpt_neox_names_its_experts() -> None:
    text = NEOX.replace('"pipe-', '"moe_num_experts": 8, "moe_expert_interval": 2, "pipe-')
    ours = read(text, "moe.yml", "gpt-neox").architecture
    assert ours is not None
    assert ours.is_moe
    assert len(ours.kinds()) == 2


NANOTRON = """
general: {project: debug, run: x, seed: 42}
model:
  dtype: bfloat16
  init_method: {std: 0.02}
  model_config:
    is_qwen2_config: true
    attention_bias: true
    hidden_size: 1536
    intermediate_size: 8960
    num_hidden_layers: 28
    num_attention_heads: 12
    num_key_value_heads: 2
    tie_word_embeddings: true
    max_position_embeddings: 32768
    vocab_size: 151936
    hidden_act: silu
    rope_theta: 10000.0
optimizer:
  zero_stage: 1
  accumulate_grad_in_fp32: true
  learning_rate_scheduler: {learning_rate: 0.0003}
  optimizer_factory: {name: adamW, torch_adam_is_fused: true}
parallelism: {dp: 2, pp: 2, tp: 4, pp_engine: afab, tp_mode: ALL_REDUCE, recompute_layer: true}
tokens: {micro_batch_size: 3, sequence_length: 4096, batch_accumulation_per_replica: 8,
         train_steps: 15}
"""


def test_nanotron_says_the_cluster_too() -> None:
    launch = read(NANOTRON, "x.yaml", "nanotron")
    assert launch.architecture is not None
    assert launch.architecture.layers == load("qwen2.5-1.5b").layers
    assert launch.gpus == 16
    plan = launch.plan
    assert (plan["schedule"], plan["sp"], plan["recompute"]) == ("gpipe", False, "full")
    assert (plan["mbs"], plan["grad_acc"], plan["seq"], plan["zero"]) == (3, 8, 4096, 1)
    assert not launch.not_understood


@pytest.mark.parametrize(
    ("says", "habit"),
    [
        ("", {"tp_async": "false"}),
        (", tp_linear_async_communication: false", {"tp_async": "false"}),
        (", tp_linear_async_communication: true", {}),
    ],
)
def test_nanotron_says_whether_collectives_run_beside_products(
    says: str, habit: dict[str, str]
) -> None:
    text = NANOTRON.replace("tp_mode: ALL_REDUCE", f"tp_mode: REDUCE_SCATTER{says}")
    found = dict(read(text, "x.yaml", "nanotron").plan.get("habits", ()))
    assert {name: value for name, value in found.items() if name == "tp_async"} == habit


TORCHTITAN = """
[model]
name = "llama3"
flavor = "70B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 8
seq_len = 8192
steps = 10
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_microbatch_size = 2
[activation_checkpoint]
mode = "selective"
[compile]
enable = true
components = ["model"]
"""


def test_torchtitan_cuts_the_local_batch_for_its_stages() -> None:
    launch = read(TORCHTITAN, "x.toml", "torchtitan")
    same_layers(launch.architecture, load("llama-3.1-70b"))
    assert launch.gpus == 2 * 4 * 8 * 4
    plan = launch.plan
    assert (plan["vpp"], plan["schedule"], plan["mbs"], plan["grad_acc"]) == (
        2,
        "interleaved",
        2,
        4,
    )
    assert (plan["zero"], plan["hsdp_shard"], plan["precision"]) == (2, 4, "fp8-amp")
    assert plan["recompute_modules"] == ("every-second-layer",)
    assert (plan["compile"], plan["loss"]) == (True, "eager")
    assert dict(plan["habits"])["norm"] == "fused"


@pytest.mark.parametrize(
    ("name", "flavor", "published"),
    [
        ("deepseek_v3", "671B", "deepseek-v3"),
        ("deepseek_v3", "16B", "deepseek-v2-lite"),
        ("qwen3", "235B-A22B", "qwen3-235b-a22b"),
        ("llama3", "405B_flex", "llama-3.1-405b"),
    ],
)
def test_a_flavor_of_torchtitan_is_a_published_model(
    name: str, flavor: str, published: str
) -> None:
    text = TORCHTITAN.replace('"llama3"', f'"{name}"').replace('"70B"', f'"{flavor}"')
    launch = read(text.replace("degree = 8", "degree = 1"), "x.toml", "torchtitan")
    same_layers(launch.architecture, load(published))


FOUNDRY = """
variables: {seq: 2048, name: gpt2}
max_seq_len: ${variables.seq}
model: {name: hf_causal_lm, pretrained_model_name_or_path: "${variables.name}",
        peft_config: {r: 16, peft_type: LORA, lora_alpha: 32, target_modules: [c_attn]}}
tokenizer: {name: "${variables.name}"}
train_loader: {name: text, dataset: {max_seq_len: "${variables.seq}"}}
optimizer: {name: decoupled_lionw, lr: 1.0e-4}
max_duration: 100ba
global_train_batch_size: 256
device_train_microbatch_size: 16
precision: amp_bf16
fsdp_config: {sharding_strategy: SHARD_GRAD_OP, mixed_precision: PURE,
              activation_checkpointing: true}
"""


def test_llm_foundry_resolves_its_variables() -> None:
    launch = read(FOUNDRY, "x.yaml", "llm-foundry")
    assert (launch.model, launch.steps) == ("gpt2", 100)
    plan = launch.plan
    assert (plan["seq"], plan["gbs"], plan["mbs"], plan["zero"]) == (2048, 256, 16, 2)
    assert (plan["optimizer"], plan["recompute"]) == ("lion", "full")
    assert (plan["reduction_dtype"], plan["lora_rank"]) == ("bf16", 16)
    assert plan["lora_targets"] == ("qkv_proj",)
    assert not launch.not_understood


def test_what_fits_is_left_to_the_person_where_the_tool_finds_it() -> None:
    launch = read(FOUNDRY.replace("size: 16", "size: auto"), "x.yaml", "llm-foundry")
    with pytest.raises(InputError, match=r"names no micro-batch size: give --mbs"):
        launch.require({"model"})


NEMO = """
trainer: {devices: 8, num_nodes: 2, precision: bf16, max_steps: 50}
exp_manager: {name: x}
model:
  mcore_gpt: true
  micro_batch_size: 1
  global_batch_size: 32
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  sequence_parallel: true
  encoder_seq_length: 4096
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  kv_channels: null
  normalization: rmsnorm
  activation: fast-swiglu
  bias: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  megatron_amp_O2: true
  activations_checkpoint_granularity: full
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 4
  tokenizer: {library: huggingface, type: meta-llama/Llama-3.1-8B}
  optim: {name: distributed_fused_adam, lr: 1.0e-4}
  peft: {peft_scheme: null}
"""


def check_llama(launch: Launch) -> None:
    same_layers(launch.architecture, load("llama-3.1-8b"))
    plan = launch.plan
    assert (plan["tp"], plan["pp"], plan["sp"], plan["zero"]) == (2, 2, True, 1)
    assert (plan["mbs"], plan["gbs"], plan["seq"]) == (1, 32, 4096)
    assert (plan["precision"], launch.gpus, launch.steps) == ("bf16-mixed", 16, 50)
    assert (plan["recompute"], plan["recompute_method"]) == ("full", "block")


def test_nemo_reads_as_megatron_does() -> None:
    launch = read(NEMO, "megatron_llama_config.yaml", "nemo")
    check_llama(launch)
    assert not launch.not_understood


def test_overrides_on_a_command_line_are_nemos_keys() -> None:
    leaves = Fields(parse_document("x.yaml", NEMO).values).leaves
    words = [f"++{name}={value}" for name, value in leaves.items() if value is not None]
    text = "python examples/megatron_gpt_pretraining.py --config-name=gpt \\\n  " + " \\\n  ".join(
        words
    )
    check_llama(read(text, "run.sh", "nemo"))


def test_literals_of_a_recipe_are_megatron_bridges_keys() -> None:
    text = """
from megatron.bridge import AutoBridge

def recipe(micro_batch_size: int = 1, global_batch_size: int = 64, num_nodes: int = 4):
    bridge = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-70B")
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = 8192
    cfg.train.train_iters = 1000
    cfg.ddp = DistributedDataParallelConfig(
        use_distributed_optimizer=True, overlap_grad_reduce=True, overlap_param_gather=True
    )
    __import__("os").system("false")
"""
    launch = read(text, "recipe.py", "nemo")
    assert launch.model == "meta-llama/Llama-3.1-70B"
    plan = launch.plan
    assert (plan["tp"], plan["pp"], plan["sp"], plan["seq"]) == (4, 4, True, 8192)
    assert (plan["mbs"], plan["gbs"], plan["zero"], launch.steps) == (1, 64, 1, 1000)
    assert plan["overlap_param_gather"] is True


AUTOMODEL = """
step_scheduler: {global_batch_size: 64, local_batch_size: 2, max_steps: 100}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
distributed: {_target_: nemo_automodel.FSDP2Manager, dp_size: none, tp_size: 2, cp_size: 1,
              sequence_parallel: true}
packed_sequence: {packed_sequence_size: 4096}
peft: {_target_: nemo_automodel.PeftConfig, match_all_linear: true, dim: 8, alpha: 32}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-5}
"""


def test_an_automodel_recipe_names_its_model_and_degrees() -> None:
    launch = read(AUTOMODEL, "llama.yaml", "nemo-automodel")
    assert (launch.model, launch.steps) == ("meta-llama/Llama-3.2-1B", 100)
    plan = launch.plan
    assert (plan["runtime"], plan["tp"], plan["sp"], plan["seq"]) == ("fsdp2", 2, True, 4096)
    assert (plan["mbs"], plan["gbs"], plan["lora_rank"], plan["lora_targets"]) == (
        2,
        64,
        8,
        ("all",),
    )
    assert not launch.not_understood


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("trainer: {devices: 1}\ninference: {greedy: false}\nmodel: {}", "it generates text"),
        ("trainer: {devices: 1}\nprune: {x: 1}\ninference: {y: 1}", "it prunes a model"),
        ("models: [{name: x}]\nicl_tasks: t.yaml", "it evaluates models"),
        ("train_data_paths: [a]\nvalid_data_paths: [b]\nsave: c", "neither a model nor a batch"),
    ],
)
def test_what_trains_nothing_is_no_launch(text: str, why: str) -> None:
    document = parse_document("x.yaml", text)
    with pytest.raises(InputError, match=f"is no training launch: .*{why}"):
        detect_kind(document, "x.yaml").read(document)


@pytest.mark.parametrize("name", ["x.yaml", "x.toml", "x.json", "x.sh", "x.py", "x", "-"])
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "1", "a: 1", "[a]\nb = 1", '{"a": 1}', "echo hi", "\x00", "--a 1"]
)
def test_a_file_of_no_kind_is_refused_in_a_sentence(text: str, name: str) -> None:
    def attempt() -> Any:
        document = parse_document(name, text)
        return detect_kind(document, name).read(document)

    with pytest.raises(InputError):
        attempt()


MEGATRON = """
MODEL_ARGS:
  --num-layers: 8
  --hidden-size: 512
  --num-attention-heads: 8
  --seq-length: 512
  --max-position-embeddings: 512
  --micro-batch-size: 1
  --num-experts: 4
  --moe-layer-freq: "[0,1]*4"
  --window-size: (127,0)
  --tokenizer-type: GPT2BPETokenizer
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --num-layers-per-virtual-pipeline-stage: 2
  --recompute-granularity: selective
  --recompute-modules: mlp core_attn
  --fp8-format: hybrid
"""
ODD = st.sampled_from(
    [
        *(None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x" * 300, "${a}", "???", [], [1]),
        *({}, "1e9", "selective", "auto", [[["flash"], 2]], "[0]*9", {"a": {"b": 1}}),
    ]
)
SEEDS = tuple(
    parse_document(f"x.{end}", text).values
    for text, end in (
        (NEOX, "yml"),
        (NANOTRON, "yaml"),
        (TORCHTITAN, "toml"),
        (FOUNDRY, "yaml"),
        (NEMO, "yaml"),
        (MEGATRON, "yaml"),
    )
)
KINDS_OF_SEEDS = ("gpt-neox", "nanotron", "torchtitan", "llm-foundry", "nemo", "megatron")


def changed(values: Any, draw: Callable[..., Any]) -> Any:
    """The same file with one value, somewhere, that makes no sense or is gone."""
    if not isinstance(values, dict) or not values:
        return draw(ODD)
    key = draw(st.sampled_from(sorted(values)))
    if isinstance(values[key], dict) and draw(st.integers(0, 3)):
        return {**values, key: changed(values[key], draw)}
    rest = {name: value for name, value in values.items() if name != key}
    return rest if draw(st.booleans()) else {**rest, key: draw(ODD)}


@settings(max_examples=400)
@given(data=st.data())
def test_a_file_with_a_value_that_makes_no_sense_is_read_or_refused(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(SEEDS) - 1))
    values = changed(SEEDS[index], data.draw)
    if not isinstance(values, dict):
        return
    document = Document(name="x.yaml", syntax="yaml", text="", values=values)
    try:
        launch = KINDS[KINDS_OF_SEEDS[index]].read(document)
    except TonnageError:
        return
    keys = Fields(values).leaves
    assert sorted((*launch.used, *launch.ignored, *launch.not_understood)) == sorted(keys)
