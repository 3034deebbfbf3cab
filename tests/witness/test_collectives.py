"""What is sent, against the counts of the papers: TP, SP, ZeRO, rings and pipelines."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
import sympy

from tests.plan.strategies import MIXTURE, cluster
from tests.witness.symbolic import B, H, S, T, gpt, setting
from tonnage.arch import MoE
from tonnage.cluster import parse_cluster
from tonnage.estimation import estimate
from tonnage.ledger import Collective, layer_operations, stage_ledgers, whole, whole_stage
from tonnage.ledger.data_parallel import data_parallel_collectives
from tonnage.mesh import Axis
from tonnage.plan import Plan
from tonnage.timing.collective import collective_seconds, wire_bytes
from tonnage.timing.efficiency import IDEAL
from tonnage.timing.pipeline import pipeline_time

N, X = sympy.symbols("n x", positive=True)


def collective(kind: Any, size: Any = X) -> Collective:
    return Collective(kind=kind, axis="dp_cp", bytes=size, phase="forward")


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("all_reduce", 2 * (N - 1) / N),
        ("all_gather", (N - 1) / N),
        ("reduce_scatter", (N - 1) / N),
        ("all_to_all", (N - 1) / N),
    ],
)
def test_bytes_on_a_ring(kind: str, share: sympy.Expr) -> None:
    assert sympy.simplify(wire_bytes(collective(kind), N) - share * X) == 0


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "send"])
def test_a_group_of_one_sends_nothing_and_takes_no_time(kind: str) -> None:
    cluster = parse_cluster("8xH100")
    assert wire_bytes(collective(kind, 1000), 1) == 0
    alone = Axis(name="dp_cp", size=1, stride=1)
    assert collective_seconds(collective(kind, 1000), alone, cluster, IDEAL) == 0


def test_an_all_reduce_is_its_two_halves() -> None:
    cluster = parse_cluster("16xH100")
    axis = Axis(name="dp_cp", size=16, stride=1)

    def seconds(kind: str) -> Any:
        return collective_seconds(collective(kind, 10**9), axis, cluster, IDEAL)

    assert seconds("all_reduce") == pytest.approx(
        seconds("all_gather") + seconds("reduce_scatter"), rel=1e-12
    )


def layer_collectives(sp: bool) -> list[Collective]:
    run = setting(gpt(), "megatron", Plan(), tp=T, sp=sp)
    operations = layer_operations(run, run.architecture.layers[0])
    return [c for op in operations for c in op.collectives if c.axis == "tp"]


def test_tensor_parallelism_alone_all_reduces_four_times_a_layer() -> None:
    """Shoeybi et al., arXiv 1909.08053, section 3: two forward, two backward, sbh each."""
    found = layer_collectives(sp=False)
    assert Counter((c.phase, c.kind) for c in found) == {
        ("forward", "all_reduce"): 2,
        ("backward", "all_reduce"): 2,
    }
    assert {sympy.expand(c.bytes) for c in found} == {2 * S * B * H}


def test_sequence_parallelism_gathers_and_scatters() -> None:
    """arXiv 2205.05198, section 4.2.2: g and its conjugate, and the gather that rebuilds."""
    found = layer_collectives(sp=True)
    assert Counter((c.phase, c.kind) for c in found) == {
        ("forward", "all_gather"): 2,
        ("forward", "reduce_scatter"): 2,
        ("backward", "reduce_scatter"): 2,
        ("backward", "all_gather"): 2 + 2,
    }
    assert {sympy.expand(c.bytes) for c in found} == {2 * S * B * H}


def test_forward_bytes_are_the_same_with_and_without_sequence_parallelism() -> None:
    """Section 4.2.2: an all-reduce is a reduce-scatter and an all-gather."""
    with_sp, without = (
        sum(wire_bytes(c, T) for c in layer_collectives(sp) if c.phase == "forward")
        for sp in (True, False)
    )
    assert sympy.simplify(with_sp - without) == 0


def zero_bytes(stage: int, grad_acc: Any = 1) -> sympy.Expr:
    """Bytes of a step that one rank sends to its replicas, everything in 16 bits."""
    run = dataclasses.replace(whole(gpt(), grad_acc=grad_acc), zero=stage, shard=N, dp=N)
    (ledger,) = stage_ledgers(run, (whole_stage(run.architecture),))
    exchanges = data_parallel_collectives(run, ledger)
    return sum(times * wire_bytes(each, N) for each, times in exchanges if each.axis == "dp_cp")


def parameters_bytes() -> sympy.Expr:
    run = whole(gpt())
    (ledger,) = stage_ledgers(run, (whole_stage(run.architecture),))
    return 2 * sum(count * weight.numel for weight, count in ledger.weights())


def test_zero_sends_two_two_and_three_times_the_parameters() -> None:
    """Rajbhandari et al., arXiv 1910.02054, section 7.2: 2Ψ, 2Ψ and, at stage 3, 3Ψ."""
    once = parameters_bytes() * (N - 1) / N
    for stage, times in ((0, 2), (1, 2), (2, 2), (3, 3)):
        assert sympy.simplify(zero_bytes(stage) - times * once) == 0


def test_accumulation_repeats_what_zero_shards() -> None:
    """Gradients leave in every micro-batch at stage 2; at 3 parameters arrive twice in each."""
    m = sympy.Symbol("m", positive=True, integer=True)
    once = parameters_bytes() * (N - 1) / N
    for stage, times in ((0, 2), (1, 2), (2, m + 1), (3, 3 * m)):
        assert sympy.simplify(zero_bytes(stage, m) - times * once) == 0


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
@pytest.mark.parametrize("vpp", [1, 2, 3])
def test_the_bubble_of_equal_stages(pp: int, vpp: int) -> None:
    """Narayanan et al., arXiv 2104.04473, section 2.2: (p - 1)/(v·m) of the work."""
    m = sympy.Symbol("m", positive=True, integer=True)
    stage: Any = X
    time = pipeline_time(Plan(pp=pp, vpp=vpp), [stage] * pp, m)
    assert sympy.simplify(time.bubble / time.busy - sympy.Rational(pp - 1, vpp) / m) == 0


def test_ring_attention_passes_keys_and_values_to_every_other_rank() -> None:
    """Liu et al., arXiv 2310.01889: k and v go round; backward, their gradients beside them."""
    c = sympy.Symbol("c", positive=True, integer=True)
    run = setting(gpt(), "megatron", Plan(), tp=T, sp=True, cp=c)
    operations = layer_operations(run, run.architecture.layers[0])
    sends = {e.phase: e for op in operations for e in op.collectives if e.axis == "cp"}
    once = 2 * (2 * S * B * H / (T * c)) * (c - 1)
    assert {each.kind for each in sends.values()} == {"send"}
    assert sympy.simplify(sends["forward"].bytes - once) == 0
    assert sympy.simplify(sends["backward"].bytes - 2 * once) == 0


@pytest.mark.parametrize("runtime", ["megatron", "nanotron"])
def test_experts_exchange_tokens_under_every_runtime(runtime: str) -> None:
    """Dispatch and combine, forward and backward, each ``(ep - 1)/ep`` of all token copies."""
    plan = Plan(runtime=runtime, ep=4, etp=1, seq=128, zero=0)
    answer = estimate(MIXTURE, plan, cluster(4))
    sent = [part for part in answer.communication if part.axis == "ep"]
    assert [part.kind for part in sent] == ["all_to_all"]
    mixtures = sum(isinstance(layer.mlp, MoE) for layer in MIXTURE.layers)
    experts = next(layer.mlp for layer in MIXTURE.layers if isinstance(layer.mlp, MoE))
    once = 128 * experts.top_k * MIXTURE.hidden * 2 * 3 // 4
    assert sent[0].count == 4 * mixtures
    assert sent[0].bytes_per_rank == 4 * mixtures * once
