"""What is written for a tool, held to the tool's own parser where that is installed.

`.ci/parsers` installs them; without one its tests are skipped.
"""

from __future__ import annotations

import dataclasses
import inspect
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from tests.formats.plans import Case, megatron_cases, torchtitan_cases
from tests.plan.strategies import cluster
from tonnage.arch import Architecture, Attention, LatentAttention, MoE, load
from tonnage.formats import export
from tonnage.formats.command import canonical, read_command
from tonnage.formats.expressions import layer_pattern
from tonnage.formats.text import parse_document
from tonnage.formats.torchtitan_models import PUBLISHED, find
from tonnage.plan import Plan
from tonnage.plan.layout import chunk_sizes
from tonnage.plan.layout_text import balanced, chunk_layers

FIELDS = {
    "num-experts": "num_moe_experts",
    "swiglu": "gated_linear_unit",
    "norm-epsilon": "layernorm_epsilon",
    "apply-layernorm-1p": "layernorm_zero_centered_gamma",
    "no-rope-fusion": None,
    "num-virtual-stages-per-pipeline-rank": "virtual_pipeline_model_parallel_size",
    "decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage",
    "cross-entropy-loss-fusion": "cross_entropy_loss_fusion",
    "account-for-embedding-in-pipeline-split": "account_for_embedding_in_pipeline_split",
    "microbatch-group-size-per-virtual-pipeline-stage": "microbatch_group_size_per_vp_stage",
    "disable-bias-linear": None,
}
"""Options of Megatron-LM that its ``TransformerConfig`` calls otherwise."""

BESIDE = frozenset(
    """
    adam-* attention-backend bf16 ckpt-format context-parallel-size cp-comm-type eval-iters
    exp-avg-dtype exp-avg-sq-dtype fp16 global-batch-size group-query-attention grad-reduce-in-bf16
    accumulate-allreduce-grads-in-fp32 log-interval lr lr-decay-style main-grads-dtype
    main-params-dtype make-vocab-size-divisible-by max-position-embeddings micro-batch-size min-lr
    mock-data no-gradient-accumulation-fusion num-distributed-optimizer-instances optimizer
    overlap-grad-reduce overlap-param-gather position-embedding-type rope-scaling-factor
    rotary-base rotary-percent rotary-seq-len-interpolation-factor seq-length split squared-relu
    tokenizer-type train-iters transformer-impl untie-embeddings-and-output-weights
    use-distributed-optimizer use-precision-aware-optimizer use-rope-scaling vocab-size
    """.split()
)
"""Options that Megatron-LM gives to its model class, data, optimizer and DDP, not to the config."""


def megatron_config(architecture: Architecture, plan: Plan, gpus: int) -> Any:
    """The ``TransformerConfig`` that the options of an exported script stand for."""
    transformer = pytest.importorskip(
        "megatron.core.transformer.transformer_config", reason="megatron-core is not installed"
    )
    text = export("megatron", architecture, plan, cluster(gpus)).text
    options = read_command(parse_document("x.sh", text)).options
    latent = "--multi-latent-attention" in options
    kind = transformer.MLATransformerConfig if latent else transformer.TransformerConfig
    known = {field.name for field in dataclasses.fields(kind)}
    # On unless --no-gradient-accumulation-fusion.
    given: dict[str, Any] = {
        "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion" not in options
    }
    for option, value in options.items():
        plain = canonical(option)
        name = FIELDS.get(plain, plain.replace("-", "_"))
        if name in known:
            given[name] = _typed(value)
        else:
            assert name is None or plain in BESIDE, f"{option} is told to nobody"
    return _built(kind, given, options, plan)


def _built(kind: Any, given: dict[str, Any], options: Any, plan: Plan) -> Any:
    """The config, with what Megatron-LM's own ``core_transformer_config_from_args`` adds."""
    import torch

    modules = given.get("recompute_modules")
    if modules is not None:
        given["recompute_modules"] = [modules] if isinstance(modules, str) else list(modules)
    given.pop("attention_backend", None)
    if given.get("multi_latent_attention") and "q_lora_rank" not in given:
        given["q_lora_rank"] = None
    if "--squared-relu" in options:
        given["activation_func"] = _squared_relu
    if given.get("gated_linear_unit"):
        given["activation_func"] = torch.nn.functional.silu
    if plan.pp > 1:
        given["pipeline_dtype"] = torch.bfloat16
    if isinstance(given.get("window_size"), str):
        given["window_size"] = tuple(int(n) for n in given["window_size"].strip("()").split(","))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(add_bias_linear="--disable-bias-linear" not in options, **given)


def _squared_relu(x: Any) -> Any:
    return x.relu() ** 2


def _typed(value: object) -> object:
    """An option's value as the field of a config holds it."""
    if not isinstance(value, str):
        return value
    pattern = layer_pattern(value) if value.startswith(("[", "(")) and "," in value else None
    if pattern is not None and value.startswith("["):
        return pattern
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if value.lstrip("-").isdigit() else number


@pytest.mark.parametrize(
    ("architecture", "plan", "gpus"),
    [
        (load("qwen3-30b-a3b"), Plan(ep=8, pp=4, seq=512), 32),
        (load("deepseek-v3"), Plan(ep=8, pp=8, seq=512, first_stage_layers=5), 64),
        (load("llama-3.1-405b"), Plan(tp=8, pp=16, seq=8192, account_for_embedding=True,
                                      account_for_loss=True), 128),
    ],
)  # fmt: skip
def test_megatron_core_takes_published_models(
    architecture: Architecture, plan: Plan, gpus: int
) -> None:
    config = megatron_config(architecture, plan, gpus)
    check_config(config, architecture, plan)


@settings(max_examples=60, deadline=None)
@given(case=megatron_cases("megatron"))
def test_megatron_core_takes_the_options(case: Case) -> None:
    architecture, plan, where = case
    narrow = ("fp8", "mxfp8", "nvfp4")  # ask for Transformer Engine, which asks for a device
    assume(plan.precision not in narrow)
    # Groups of experts are for latent attention's models; the sets of ranks are not made here.
    config = megatron_config(architecture, plan, where.gpus)
    check_config(config, architecture, plan)


def check_config(config: Any, architecture: Architecture, plan: Plan) -> None:
    """What Megatron-Core understands is the model and the plan that were written."""
    layer = architecture.layers[-1]
    assert layer.mixer_norm is not None
    assert config.num_layers == len(architecture.layers)
    assert config.hidden_size == architecture.hidden
    assert config.tensor_model_parallel_size == plan.tp
    assert config.pipeline_model_parallel_size == plan.pp
    assert config.sequence_parallel == bool(plan.sp if plan.sp is not None else plan.tp > 1)
    assert config.layernorm_zero_centered_gamma == layer.mixer_norm.centred
    assert config.normalization.lower() == layer.mixer_norm.kind
    if architecture.constants.norm_eps is not None:
        assert config.layernorm_epsilon == architecture.constants.norm_eps
    mixer = layer.mixer
    assert isinstance(mixer, Attention | LatentAttention)
    assert config.num_attention_heads == mixer.heads
    if isinstance(mixer, LatentAttention):
        check_latent(config, mixer, architecture)
    else:
        assert config.num_query_groups in (None, mixer.kv_heads)
        assert config.kv_channels == mixer.head_dim
        assert config.qk_layernorm == (mixer.qk_norm is not None)
    if isinstance(layer.mlp, MoE):
        check_routing(config, layer.mlp, architecture)


def check_latent(config: Any, mixer: LatentAttention, architecture: Architecture) -> None:
    """Widths of latent attention and how its positions are stretched."""
    assert (config.q_lora_rank, config.kv_lora_rank) == (mixer.query_rank, mixer.kv_rank)
    assert config.qk_head_dim == mixer.nope_head_dim
    assert config.qk_pos_emb_head_dim == mixer.rope_head_dim
    assert config.v_head_dim == mixer.value_head_dim
    scaling = architecture.constants.rope_scaling
    assert config.rope_type == ("rope" if scaling is None else "yarn")
    assert config.rotary_base == architecture.constants.rope_base
    if scaling is not None:
        assert config.rotary_scaling_factor == scaling.factor
        assert (config.mscale, config.mscale_all_dim) == (scaling.mscale, scaling.mscale_all_dim)
        assert (config.beta_fast, config.beta_slow) == (scaling.beta_fast, scaling.beta_slow)
        assert config.original_max_position_embeddings == scaling.original_positions


def check_routing(config: Any, routed: MoE, architecture: Architecture) -> None:
    """Experts and how they are weighed."""
    assert config.num_moe_experts == routed.experts
    assert config.moe_router_topk == routed.top_k
    assert config.moe_ffn_hidden_size == routed.expert.intermediate
    shared = routed.shared.intermediate if routed.shared else None
    assert config.moe_shared_expert_intermediate_size == shared
    routing = architecture.constants.routing
    assert routing is not None
    assert config.moe_router_score_function == routing.score
    assert config.moe_router_pre_softmax == (
        routing.score == "softmax" and routing.normalised is False
    )
    assert config.moe_router_enable_expert_bias == routing.bias
    assert (config.moe_router_num_groups or 1) == routing.groups
    assert (config.moe_router_topk_scaling_factor or 1.0) == routing.scale


def test_megatron_core_reads_a_layout_as_it_is_read_here() -> None:
    layouts = pytest.importorskip(
        "megatron.core.transformer.pipeline_parallel_layer_layout",
        reason="megatron-core is not installed",
    )
    text = "Et*3|(tt|)*5t|tL"
    theirs = layouts.PipelineParallelLayerLayout.from_str(text, 4)
    # A list of chunks for each rank; chunks run rank by rank, then chunk by chunk.
    in_order = [chunk for chunks in zip(*theirs.layout, strict=True) for chunk in chunks]
    counts = [sum("decoder" in str(part) for part in chunk) for chunk in in_order]
    assert sum(counts) == 15
    assert counts == chunk_layers(text, layers=sum(counts), chunks=8)


def torchtitan_manager() -> Any:
    config = pytest.importorskip("torchtitan.config", reason="torchtitan is not installed")
    if "job_config" not in inspect.getsource(config):
        pytest.skip("a torchtitan that reads no TOML")
    return config.ConfigManager()


@pytest.mark.parametrize(
    ("name", "flavor"),
    [(name, flavor) for name, flavors in PUBLISHED.items() for flavor in flavors],
)
def test_torchtitan_takes_the_file(name: str, flavor: str, tmp_path: Path) -> None:
    manager = torchtitan_manager()
    architecture = find(name, flavor)
    assert architecture is not None
    plan = Plan(runtime="fsdp2", tp=2, mbs=2, seq=512, recompute="full")
    written = export("torchtitan", architecture, plan, cluster(64))
    path = tmp_path / "run.toml"
    path.write_text(written.text, encoding="utf-8")
    read = manager.parse_args(["--job.config_file", str(path)])
    assert read.model.name == name
    assert read.model.flavor.lower() == flavor
    assert read.parallelism.tensor_parallel_degree == 2
    assert read.parallelism.data_parallel_shard_degree == 32
    assert read.training.local_batch_size == 2
    assert read.activation_checkpoint.mode == "full"


@settings(max_examples=40, deadline=None)
@given(case=torchtitan_cases())
def test_torchtitan_takes_every_plan(case: Case) -> None:
    manager = torchtitan_manager()
    architecture, plan, where = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_text(export("torchtitan", architecture, plan, where).text, encoding="utf-8")
        parallel = manager.parse_args(["--job.config_file", str(path)]).parallelism
    assert parallel.pipeline_parallel_degree == plan.pp
    assert parallel.context_parallel_degree == plan.cp
    if plan.pp > 1:
        check_stages(parallel, architecture, plan)


def check_stages(parallel: Any, architecture: Architecture, plan: Plan) -> None:
    """PyTorch knows the schedule, and torchtitan cuts the layers where the plan does."""
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class
    from torchtitan.distributed.pipeline_parallel import generate_llm_fqn_per_model_part

    single = issubclass(get_schedule_class(parallel.pipeline_parallel_schedule),
                        PipelineScheduleSingle)  # fmt: skip
    assert single == (plan.vpp == 1)
    ends = (
        parallel.pipeline_parallel_first_stage_less_layers,
        parallel.pipeline_parallel_last_stage_less_layers,
    )
    layers, each = len(architecture.layers), parallel.pipeline_parallel_layers_per_stage
    stages = plan.pp * (1 if single else 2)
    if each is not None:
        stages = -(-(layers + sum(ends)) // each)
    parts = parallel.module_fqns_per_model_part or generate_llm_fqn_per_model_part(
        stages, layers, *ends
    )
    assert len(parts) == plan.pp * plan.vpp
    assert [name for part in parts for name in part] == [
        "tok_embeddings", *(f"layers.{i}" for i in range(layers)), "norm", "output"
    ]  # fmt: skip
    wanted = [size for sizes in chunk_sizes(architecture, plan) for size in sizes]
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == wanted


@pytest.mark.parametrize(("layers", "stages"), [(32, 4), (80, 8), (126, 16), (48, 4), (27, 2)])
def test_torchtitan_splits_layers_as_it_is_read_here(layers: int, stages: int) -> None:
    pipelines = pytest.importorskip(
        "torchtitan.distributed.pipeline_parallel", reason="torchtitan is not installed"
    )
    parts = pipelines.generate_llm_fqn_per_model_part(stages, layers, 1, 1)
    counts = [sum(name.startswith("layers.") for name in part) for part in parts]
    assert counts == chunk_layers(balanced(layers, stages), layers=layers, chunks=stages)
