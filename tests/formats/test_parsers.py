"""What is written for a tool, held to the tool's own parser where that is installed.

`.ci/parsers` installs them; without one its tests are skipped.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, MIXTURE, cluster
from tonnage.arch import Architecture, load
from tonnage.formats import export
from tonnage.formats.command import canonical, read_command
from tonnage.formats.expressions import layer_pattern
from tonnage.formats.text import parse_document
from tonnage.formats.torchtitan_models import PUBLISHED, find
from tonnage.plan import Plan
from tonnage.plan.layout_text import balanced, chunk_layers

FIELDS = {
    "num-experts": "num_moe_experts",
    "swiglu": "gated_linear_unit",
    "untie-embeddings-and-output-weights": None,
    "disable-bias-linear": None,
    "group-query-attention": None,
    "vocab-size": None,
    "max-position-embeddings": None,
    "position-embedding-type": None,
    "use-distributed-optimizer": None,
    "num-virtual-stages-per-pipeline-rank": "virtual_pipeline_model_parallel_size",
}
"""Options of Megatron-LM that its ``TransformerConfig`` calls otherwise, or leaves to others."""


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
    given: dict[str, Any] = {}
    for option, value in options.items():
        name = FIELDS.get(canonical(option), canonical(option).replace("-", "_"))
        if name in known:
            given[name] = _typed(value)
    if isinstance(given.get("recompute_modules"), str):
        given["recompute_modules"] = [given["recompute_modules"]]
    given.pop("attention_backend", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch

        if plan.pp > 1:
            given["pipeline_dtype"] = torch.bfloat16
        return kind(add_bias_linear="--disable-bias-linear" not in options, **given)


def _typed(value: object) -> object:
    """An option's value as the field of a config holds it."""
    if not isinstance(value, str):
        return value
    pattern = layer_pattern(value)
    if pattern is not None:
        return pattern
    try:
        return float(value)
    except ValueError:
        return value


@pytest.mark.parametrize(
    ("architecture", "plan", "gpus"),
    [
        (DENSE, Plan(tp=2, pp=2, vpp=2, seq=64, grad_acc=4, recompute="full"), 8),
        (GPT, Plan(tp=2, cp=2, seq=64, recompute="selective"), 8),
        (GPT, Plan(pp=2, first_stage_layers=3, seq=64), 4),
        (MIXTURE, Plan(tp=2, ep=2, etp=1, seq=64), 8),
        (DEEPSEEK, Plan(ep=4, seq=64, recompute="selective", recompute_modules=("mlp",)), 8),
        (load("qwen3-30b-a3b"), Plan(ep=8, pp=4, seq=512), 32),
        (load("llama-3.1-405b"), Plan(tp=8, pp=16, seq=8192, account_for_embedding=True,
                                      account_for_loss=True), 128),
    ],
)  # fmt: skip
def test_megatron_core_takes_the_options(architecture: Architecture, plan: Plan, gpus: int) -> None:
    config = megatron_config(architecture, plan, gpus)
    assert config.num_layers == len(architecture.layers)
    assert config.hidden_size == architecture.hidden
    assert config.tensor_model_parallel_size == plan.tp
    assert config.pipeline_model_parallel_size == plan.pp


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


@pytest.mark.parametrize(("layers", "stages"), [(32, 4), (80, 8), (126, 16), (48, 4), (27, 2)])
def test_torchtitan_splits_layers_as_it_is_read_here(layers: int, stages: int) -> None:
    pipelines = pytest.importorskip(
        "torchtitan.distributed.pipeline_parallel", reason="torchtitan is not installed"
    )
    parts = pipelines.generate_llm_fqn_per_model_part(stages, layers, 1, 1)
    counts = [sum(name.startswith("layers.") for name in part) for part in parts]
    assert counts == chunk_layers(balanced(layers, stages), layers=layers, chunks=stages)
