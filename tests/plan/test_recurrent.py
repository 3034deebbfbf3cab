"""What recurrent mixers make impossible, and that the rest of a plan works with them."""

from __future__ import annotations

import dataclasses

import pytest

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError, NotModelledError
from tonnage.estimation import estimate
from tonnage.plan import Plan, resolve

CLUSTER = parse_cluster("16xH100")
SPLITS = [
    ("qwen3-next-80b-a3b", 16, "key-value heads"),
    ("nemotron-3-nano-30b-a3b", 16, "groups of Mamba-2"),
    ("granite-4.0-h-small", 2, "groups of Mamba-2"),
    ("bamba-9b", 2, "groups of Mamba-2"),
]


@pytest.mark.parametrize(("name", "tp", "what"), SPLITS)
def test_tensor_parallelism_divides_what_it_splits(name: str, tp: int, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        resolve(Plan(tp=tp), load(name), CLUSTER)
    assert caught.value.field == "tp"


@pytest.mark.parametrize(
    "name", ["mamba-2.8b", "mamba-codestral-7b", "lfm2-1.2b", "kimi-linear-48b-a3b"]
)
def test_context_parallelism_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(NotModelledError, match="recurrent mixers, whose state") as caught:
        resolve(Plan(cp=2), load(name), CLUSTER)
    assert caught.value.field == "cp"


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("nemotron-3-nano-30b-a3b", Plan(tp=2, pp=2, ep=4)),
        ("qwen3-next-80b-a3b", Plan(tp=2, ep=8)),
        ("mamba-2.8b", Plan(tp=4)),
        ("jamba-v0.1", Plan(tp=4, ep=4, pp=4, etp=1)),
        ("lfm2-1.2b", Plan(tp=2, pp=4)),
        ("minimax-text-01", Plan(tp=8, ep=16, etp=1)),
        ("mamba-130m", Plan(runtime="fsdp2")),
    ],
)
def test_a_hybrid_is_weighed(name: str, plan: Plan, recompute: str) -> None:
    plan = dataclasses.replace(plan, recompute=recompute)  # type: ignore[arg-type]
    answer = estimate(load(name), plan, CLUSTER)
    assert answer.memory.peak_bytes.allocated > 0
    assert answer.step.seconds > 0
    assert answer.flops.hardware_per_step >= answer.flops.model_per_step > 0
