"""The ledger beside dry runs in a world of ranks, to the byte and to the FLOP: no tolerance.

Under ``fsdp2`` and ``ddp`` the reference transformer is run, or transformers' own class. Every
kind of model meets every precision, recomputation, attention kernel and way of splitting at
least once, and the plain decoder most pairs of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.pytorch.models import GROUPED, LATENT, MODELS
from tests.pytorch.test_exact import differing

pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.plan import Plan
from tonnage.pytorch import DryRun, compare, dry_run
from tonnage.pytorch.compare import saved_by_layer

# FSDP2 pads shards of rows that do not divide, which the ledger does not.
SPLIT = {**GROUPED, "vocab_size": 96}
DECODERS: dict[str, dict[str, Any]] = {
    "gqa": {"model_type": "llama", **SPLIT},
    "mha-tied": {
        "model_type": "llama",
        **SPLIT,
        "num_key_value_heads": 8,
        "tie_word_embeddings": True,
    },
    "qk-norm": {"model_type": "qwen3", **SPLIT, "head_dim": 16},
    "window": {"model_type": "mistral", **SPLIT, "sliding_window": 32},
    "plain": {"model_type": "starcoder2", **SPLIT, "sliding_window": None},
    "parallel": {
        "model_type": "phi",
        **SPLIT,
        "num_key_value_heads": 8,
        "partial_rotary_factor": 0.5,
    },
    "moe": {**MODELS["mixtral"], "vocab_size": 96},
    "mla": {"model_type": "deepseek_v3", **SPLIT, **LATENT},
    "dropout": {**MODELS["gpt2"], "vocab_size": 96},
}


def run(model: str, gpus: int, code: Any = None, **fields: Any) -> DryRun:
    plan = Plan(**{"runtime": "fsdp2", "seq": 32, "mbs": 2, **fields})
    return dry_run(DECODERS[model], plan, parse_cluster(f"{gpus}xH100"), name=model, code=code)


def hold(done: DryRun) -> None:
    rows = compare(done)
    assert sum(row.exact for row in rows) == 7
    assert differing(rows) == {}
    if done.resolved.plan.recompute == "none":
        inside, outside = saved_by_layer(done)
        assert differing((*inside, outside)) == {}


def selective(module: str) -> dict[str, Any]:
    return {"recompute": "selective", "recompute_modules": (module,)}


BLOCK = {"recompute": "full", "recompute_method": "block", "recompute_num_layers": 1}


@pytest.mark.parametrize(
    ("model", "gpus", "fields"),
    [
        ("gqa", 1, {}),
        ("gqa", 4, {"precision": "fp32", "attention": "eager"}),
        ("gqa", 4, {"precision": "bf16", "recompute": "full"}),
        ("gqa", 4, {"grad_acc": 2, "mbs": 1}),
        ("gqa", 4, {"zero": 2, "optimizer_step": "foreach"}),
        ("gqa", 4, selective("mlp")),
        ("gqa", 4, {**selective("core_attn"), "attention": "eager"}),
        ("gqa", 4, {**selective("outputs"), "attention": "eager"}),
        ("gqa", 4, selective("every-second-layer")),
        ("gqa", 4, BLOCK),
        ("window", 4, {"precision": "bf16", "attention": "eager"}),
        ("parallel", 2, {"precision": "fp32"}),
    ],
)
def test_sharded(model: str, gpus: int, fields: dict[str, Any]) -> None:
    hold(run(model, gpus, **fields))


@pytest.mark.parametrize(
    ("model", "gpus", "tp", "fields"),
    [
        ("gqa", 2, 2, {"precision": "fp32"}),
        ("gqa", 8, 2, {"hsdp_shard": 2, "grad_acc": 2}),
        ("gqa", 4, 2, selective("mlp")),
        ("gqa", 4, 2, selective("outputs")),
        ("mha-tied", 8, 8, {"attention": "eager", "recompute": "full"}),
        ("qk-norm", 4, 2, {"precision": "bf16"}),
        ("window", 8, 2, {"mbs": 1}),
        ("plain", 4, 2, {"attention": "eager"}),
    ],
)
def test_split_over_tensor_ranks(model: str, gpus: int, tp: int, fields: dict[str, Any]) -> None:
    hold(run(model, gpus, tp=tp, **fields))


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gqa", {"precision": "bf16-amp", "attention": "eager"}),
        ("mha-tied", {"precision": "fp32", "recompute": "full"}),
        ("plain", {"precision": "bf16", "grad_acc": 2}),
    ],
)
def test_replicated(model: str, fields: dict[str, Any]) -> None:
    hold(run(model, 2, runtime="ddp", **fields))


@pytest.mark.parametrize("model", ["gqa", "moe", "mla", "dropout"])
@pytest.mark.parametrize(
    "fields",
    [
        {"runtime": "fsdp2", "attention": "eager"},
        {"runtime": "fsdp2", "recompute": "full"},
        {"runtime": "ddp"},
    ],
)
def test_classes_of_transformers(model: str, fields: dict[str, Any]) -> None:
    hold(run(model, 4, "transformers", **fields))


@pytest.mark.parametrize("fields", [{}, {"recompute": "full"}, {"tp": 4}])
def test_the_peak_of_a_larger_model_is_near(fields: dict[str, Any]) -> None:
    """The loss decides it: whole layers of FSDP2, and the four copies of a split vocabulary."""
    config = {
        **DECODERS["mha-tied"],
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    }
    plan = Plan(runtime="fsdp2", seq=2048, **fields)
    rows = compare(dry_run(config, plan, parse_cluster("8xH100")))
    (peak,) = (row for row in rows if row.name == "peak")
    assert abs(peak.difference) < 0.04 * peak.dry_run


@pytest.mark.parametrize("grad_acc", [1, 2])
def test_fully_sharded_ranks_send_what_the_ledger_says(grad_acc: int) -> None:
    """The root is gathered once a pass, and nothing but shards is sent."""
    sent = [row for row in compare(run("gqa", 4, grad_acc=grad_acc)) if row.name.startswith("sent")]
    assert [row.name for row in sent] == ["sent by all_gather", "sent by reduce_scatter"]
    assert [row.difference for row in sent] == [0, 0]


def test_replicas_reduce_every_gradient_once() -> None:
    done = run("gqa", 4, runtime="ddp", grad_acc=2)
    (row,) = (row for row in compare(done) if row.name == "sent by all_reduce")
    assert row.difference == 0
    assert done.trace.most_of("communication buffer") == done.trace.most_of("gradient")


def test_rows_that_do_not_divide_are_named() -> None:
    """Four experts on sixteen ranks: each holds one, padding or not."""
    done = run("moe", 16, "transformers")
    assert any("rows that the ranks do not divide" in note for note in done.assumptions)
    (row,) = (row for row in compare(done) if row.name == "parameters")
    assert row.difference < 0
    assert not any("rows that" in note for note in run("gqa", 4).assumptions)


def test_whole_parameters_are_lent() -> None:
    """One unit whole beside its gathered copy, and the root all the while."""
    trace = run("gqa", 4).trace
    hidden, wide, kv, vocab = 64, 96, 16, 96
    layer = 2 * (2 * hidden + 2 * hidden**2 + 2 * kv * hidden + 3 * wide * hidden)
    root = 2 * (2 * vocab * hidden + hidden)
    assert trace.most_of("gathered parameter") == root + 3 * layer
    assert trace.at(trace.levels[-1][0]).categories.get("gathered parameter", 0) == 0


def test_one_world_leaves_nothing_to_the_next() -> None:
    """DTensor knows groups by their place in a world."""
    run("gqa", 8, tp=2, hsdp_shard=2)
    hold(run("gqa", 8, tp=2))
    assert not distributed.is_initialized()


def test_a_world_that_is_there_is_not_taken_over() -> None:
    distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with pytest.raises(InputError, match="a world of its own"):
            run("gqa", 2)
    finally:
        distributed.destroy_process_group()
