"""DeepSpeed and accelerate files that are written: read back, and by the tools' own parsers."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.formats import export, read_launch
from tonnage.formats.write.script import SCRIPT
from tonnage.plan import Plan, resolve

MODEL = load("qwen3-0.6b")
BESIDE = (*SCRIPT, "optimizer", "mbs", "grad_acc")
"""What a person tells the training script, and gives beside the file when it is read."""


def written(kind: str, plan: Plan, gpus: int) -> str:
    """The text of a plan's file."""
    return export(kind, MODEL, plan, parse_cluster(f"{gpus}xH100")).text


def read_back(text: str, plan: Plan, gpus: int, suffix: str) -> Plan:
    """The plan of a written file with what the script is told beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"written.{suffix}"
        path.write_text(text, encoding="utf-8")
        launch = read_launch(str(path), gpus=gpus)
    assert not launch.not_understood
    told: dict[str, Any] = {name: getattr(plan, name) for name in BESIDE}
    return Plan(**{**told, **launch.plan})


def resolved(plan: Plan, gpus: int) -> Plan:
    """The plan with every blank filled."""
    return resolve(plan, MODEL, parse_cluster(f"{gpus}xH100")).plan


sizes = st.fixed_dictionaries(
    {
        "mbs": st.integers(1, 8),
        "grad_acc": st.integers(1, 8),
        "seq": st.sampled_from([512, 2048]),
        "recompute": st.sampled_from(["none", "full"]),
    }
)
buckets = st.sampled_from([(), (("bucket_bytes", "400000000"),)])
deepspeed = st.fixed_dictionaries(
    {
        "zero": st.integers(1, 3),
        "precision": st.sampled_from(["bf16-mixed-bf16-grads", "fp16-mixed", "fp32"]),
        "optimizer": st.sampled_from(["adamw", "adam", "lion", "muon", "sgd", "adam8bit"]),
        "reduction_dtype": st.sampled_from([None, "bf16", "fp32"]),
        "gradients_dtype": st.sampled_from([None, "fp32"]),
        "habits": buckets,
    }
)


@settings(max_examples=25)
@given(sizes, deepspeed, st.sampled_from([1, 8, 16]))
def test_a_deepspeed_file_reads_back(
    common: dict[str, Any], engine: dict[str, Any], gpus: int
) -> None:
    plan = Plan(runtime="deepspeed", **common, **engine)
    back = read_back(written("deepspeed", plan, gpus), plan, gpus, "json")
    assert resolved(back, gpus) == resolved(plan, gpus)


sharded = st.one_of(
    st.fixed_dictionaries(
        {"precision": st.just("bf16-amp"), "reduction_dtype": st.just("bf16")},
    ),
    st.fixed_dictionaries(
        {"precision": st.just("bf16"), "habits": st.just((("autocast", "false"),))}
    ),
)
engines = st.one_of(
    st.builds(
        lambda recipe, zero, offload: {
            "runtime": "accelerate",
            "zero": zero,
            "offload_parameters": offload and zero == 3,
            **recipe,
        },
        sharded,
        st.sampled_from([2, 3]),
        st.booleans(),
    ),
    st.builds(
        lambda recipe, mesh, zero: {"runtime": "accelerate-fsdp2", "zero": zero, **recipe, **mesh},
        sharded,
        st.sampled_from(
            [{}, {"tp": 2}, {"cp": 2}, {"tp": 2, "cp": 2, "hsdp_shard": 2}, {"hsdp_shard": 4}]
        ),
        st.sampled_from([2, 3]),
    ),
    st.builds(
        lambda zero: {
            "runtime": "deepspeed",
            "zero": zero,
            "precision": "bf16-mixed-bf16-grads",
        },
        st.integers(0, 3),
    ),
    st.just({"runtime": "ddp", "precision": "bf16"}),
    st.builds(
        lambda tp, pp, zero: {
            "runtime": "megatron",
            "tp": tp,
            "pp": pp,
            "zero": zero,
            "precision": "bf16-mixed",
        },
        st.sampled_from([1, 2]),
        st.sampled_from([1, 2]),
        st.sampled_from([0, 1]),
    ),
)


@settings(max_examples=25)
@given(sizes, engines)
def test_an_accelerate_file_reads_back(common: dict[str, Any], engine: dict[str, Any]) -> None:
    plan = Plan(**common, **engine)
    back = read_back(written("accelerate", plan, 8), plan, 8, "yaml")
    assert resolved(back, 8) == resolved(plan, 8)


def test_what_the_script_decides_is_said() -> None:
    plan = Plan(runtime="deepspeed", seq=2048, lora_rank=8, recompute="full")
    told = export("deepspeed", MODEL, plan, parse_cluster("8xH100"))
    said = " ".join(told.warnings)
    assert all(name in said for name in ("seq 2048", "lora_rank 8", "recompute full"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("deepspeed", {"runtime": "deepspeed", "zero": 2, "hsdp_shard": 4}),
        ("deepspeed", {"runtime": "deepspeed", "precision": "bf16"}),
        ("accelerate", {"runtime": "accelerate", "zero": 3, "hsdp_shard": 4}),
        ("accelerate", {"runtime": "megatron", "pp": 2, "vpp": 2, "grad_acc": 4}),
    ],
)
def test_what_no_key_says_is_refused(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="can be told"):
        written(kind, Plan(seq=512, **fields), 8)


@settings(max_examples=25)
@given(sizes, engines)
def test_accelerate_reads_what_is_written(common: dict[str, Any], engine: dict[str, Any]) -> None:
    pytest.importorskip("accelerate", reason="accelerate's own parser")
    from accelerate.commands.config.config_args import ClusterConfig

    plan = Plan(**common, **engine)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written.yaml"
        path.write_text(written("accelerate", plan, 8), encoding="utf-8")
        config = ClusterConfig.from_yaml_file(str(path))
    assert config.num_processes == 8
    names = {"accelerate": "FSDP", "accelerate-fsdp2": "FSDP", "ddp": "MULTI_GPU"}
    names |= {"deepspeed": "DEEPSPEED", "megatron": "MEGATRON_LM"}
    assert config.distributed_type == names[plan.runtime]
    if plan.runtime.startswith("accelerate"):
        _check_fsdp(config.fsdp_config, plan)


def _check_fsdp(config: dict[str, Any], plan: Plan) -> None:
    """What accelerate's plugin makes of the environment that its launcher sets."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    with pytest.MonkeyPatch.context() as patch:
        for name, value in config.items():
            patch.setenv(name.upper(), str(value))
        # They load the weights, which asks for a device.
        patch.setenv("FSDP_SYNC_MODULE_STATES", "false")
        patch.setenv("FSDP_CPU_RAM_EFFICIENT_LOADING", "false")
        plugin = FullyShardedDataParallelPlugin()
    assert plugin.activation_checkpointing == (plan.recompute == "full")
    if plugin.fsdp_version == 2:
        assert plugin.reshard_after_forward == (plan.zero == 3)
    else:
        names = {3: "FULL_SHARD", 2: "SHARD_GRAD_OP"}
        assert plugin.sharding_strategy.name == names[plan.zero or 0]


@settings(max_examples=25)
@given(sizes, deepspeed)
def test_deepspeed_reads_what_is_written(common: dict[str, Any], engine: dict[str, Any]) -> None:
    if sys.platform != "linux":
        pytest.skip("DeepSpeed is built for Linux")
    pytest.importorskip("deepspeed", reason="DeepSpeed's own parser")
    from deepspeed.runtime.config import DeepSpeedConfig

    plan = Plan(runtime="deepspeed", **common, **engine)
    config = DeepSpeedConfig(json.loads(written("deepspeed", plan, 1)))
    assert config.zero_optimization_stage == plan.zero
    assert config.train_micro_batch_size_per_gpu == plan.mbs
    assert config.gradient_accumulation_steps == plan.grad_acc
    assert config.bfloat16_config.enabled == (plan.precision == "bf16-mixed-bf16-grads")
    assert config.float16_config.enabled == (plan.precision == "fp16-mixed")
    if plan.habits:
        assert config.zero_config.reduce_bucket_size == 200_000_000
