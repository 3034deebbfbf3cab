"""The whole run: its cost, its checkpoints, and what failures make of it."""

from __future__ import annotations

import pytest

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.estimation import Failures, Limits, estimate
from tonnage.ledger import parameters
from tonnage.memory import checkpoint_bytes
from tonnage.plan import Plan, resolve

LLAMA_3 = Plan(
    tp=8, pp=16, vpp=8, gbs=2048, seq=8192, account_for_embedding=True, account_for_loss=True
)
DAY = 86_400.0


def test_the_interruptions_of_llama_3() -> None:
    """419 unexpected ones in 54 days on 16,384 GPUs, and more than 90 % of the time effective.

    Grattafiori et al., arXiv 2407.21783, section 3.3.4; storage of 2 TB/s, section 3.3.1.
    """
    mtbf = 54 * DAY * 16384 / 419
    assert mtbf / 3600 == pytest.approx(50_700, rel=0.01)
    limits = Limits(tokens=10**12, failures=Failures(mtbf=mtbf, checkpoint_bandwidth=2e12))
    answer = estimate(load("llama-3.1-405b"), LLAMA_3, parse_cluster("16384xH100"), limits)
    assert answer.run is not None
    part = answer.run.failures
    assert part is not None
    assert part.job_mtbf_seconds == pytest.approx(54 * DAY / 419)
    assert part.expected / part.days * 54 == pytest.approx(419)
    assert 0.90 < part.goodput < 0.95
    assert part.days == pytest.approx(answer.run.days / part.goodput)


@pytest.mark.parametrize(
    ("precision", "each"),
    [("bf16-mixed", 2 + 4 + 8), ("fp8", 2 + 4 + 8), ("bf16", 2 + 4), ("fp32", 4 + 8)],
)
def test_a_checkpoint_is_weights_master_copies_and_moments(precision: str, each: int) -> None:
    model = load("llama-3.1-8b")
    plan = Plan(tp=2, pp=2, zero=1, precision=precision)
    resolved = resolve(plan, model, parse_cluster("8xH100"))
    assert checkpoint_bytes(resolved.setting) == each * parameters(model).total


def test_a_frozen_base_is_not_written() -> None:
    model = load("llama-3.1-8b")
    plan = Plan(runtime="transformers", lora_rank=16, lora_base="nf4")
    whole = checkpoint_bytes(resolve(plan, model, parse_cluster("1xH100")).setting)
    assert 0 < whole < 0.1 * parameters(model).total


def run(limits: Limits) -> object:
    return estimate(load("gpt2"), Plan(seq=1024), parse_cluster("8xA100"), limits).run


def test_the_cost_is_that_of_the_hours_that_are_paid() -> None:
    found = estimate(
        load("gpt2"), Plan(seq=1024), parse_cluster("8xA100"), Limits(steps=1000, price=2.0)
    ).run
    assert found is not None
    assert found.cost == pytest.approx(2.0 * found.gpu_hours)
    failing = Limits(steps=1000, price=2.0, failures=Failures(mtbf=1e6, checkpoint_bandwidth=1e9))
    slower = estimate(load("gpt2"), Plan(seq=1024), parse_cluster("8xA100"), failing).run
    assert slower is not None
    assert slower.failures is not None
    assert slower.cost is not None
    assert found.cost is not None
    assert slower.cost == pytest.approx(2.0 * slower.failures.gpu_hours)
    assert slower.cost > found.cost


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="needs the length of the run"):
        Limits(price=2.0)
    with pytest.raises(InputError, match="price: -1 is no price"):
        Limits(price=-1, steps=1)
    with pytest.raises(InputError, match="mtbf: 0 is not over 0"):
        Failures(mtbf=0, checkpoint_bandwidth=1.0)
    with pytest.raises(InputError, match="the run never ends"):
        run(Limits(steps=10, failures=Failures(mtbf=0.01, checkpoint_bandwidth=1e3)))
