"""Frozen parts: no gradients, no states, half of a product's backward, less to keep."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.strategies import DENSE, GPT, MIXTURE, cluster
from tonnage.arch import Architecture, load
from tonnage.estimation import estimate
from tonnage.ledger import StageLedger, parameters, sequence_flops, stage_ledgers
from tonnage.ledger.data_parallel import data_parallel_collectives
from tonnage.ledger.flops import ModelFlops
from tonnage.memory.activations import kept_by_chunk
from tonnage.memory.states import states
from tonnage.plan import Plan, Resolved, resolve

PARTS = ("embedding", "attention", "mlp", "norms", "head")


def run(architecture: Architecture = DENSE, **plan: Any) -> Resolved:
    return resolve(Plan(**{"seq": 64, "zero": 0, **plan}), architecture, cluster(1))


def only(resolved: Resolved) -> StageLedger:
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    return ledger


def trained(resolved: Resolved) -> int:
    return sum(int(n * w.numel) for w, n in only(resolved).weights() if w.trains)


def flops(resolved: Resolved) -> ModelFlops:
    return sequence_flops(resolved.setting, resolved.stages, causal=True)


def kept(resolved: Resolved) -> int:
    chunk = resolved.stages[0].chunks[0]
    return int(kept_by_chunk(resolved.setting, only(resolved), chunk))


@pytest.mark.parametrize("part", PARTS)
def test_a_frozen_part_is_what_a_count_says_of_it(part: str) -> None:
    plan: dict[str, Any] = {"habits": (("vocab_multiple", "1"),)}
    count = parameters(DENSE)
    assert trained(run(**plan)) - trained(run(freeze=(part,), **plan)) == getattr(count, part)


def test_a_tied_head_is_the_embedding() -> None:
    one, other = (run(GPT, freeze=(part,)) for part in ("embedding", "head"))
    assert trained(one) == trained(other) < trained(run(GPT))


def test_a_quantised_base_is_gathered_packed() -> None:
    def moved(**plan: Any) -> int:
        changes = {"runtime": "accelerate", "zero": 3, "lora_rank": 4, "precision": "bf16", **plan}
        held = resolve(Plan(seq=64, **changes), load("llama-3.1-8b"), cluster(8))
        sent = data_parallel_collectives(held.setting, only(held))
        return int(sum(n * one.bytes for one, n in sent if one.kind == "all_gather"))

    # A quarter of the layers' linear weights. The root unit, embedding and head, is not
    # quantised, and gathered once.
    ends = 2 * 2 * 128256 * 4096
    assert moved(lora_base="nf4") == pytest.approx((moved() - ends) / 4 + ends, rel=0.01)


def test_everything_frozen_has_no_states() -> None:
    resolved = run(freeze=("embedding", "layers", "head"))
    held = states(resolved.setting, only(resolved))
    assert held.gradients == held.master_weights == held.optimizer_states == 0
    assert held.parameters > 0


def test_a_frozen_product_keeps_no_input_and_has_one_product_backward() -> None:
    """An MLP of 3·h·f weights: 2 FLOPs a weight and token fewer, and h and f elements kept."""
    full, frozen = run(), run(freeze=("mlp",))
    weights = 8 * 3 * 64 * 160
    assert flops(full).model - flops(frozen).model == 2 * 64 * weights
    assert kept(full) - kept(frozen) == 8 * 2 * 64 * (64 + 160)


def test_below_the_first_part_that_trains_nothing_is_kept() -> None:
    resolved = run(freeze=("embedding", "layers"))
    assert kept(resolved) == 0
    assert kept(run(freeze=("layers",))) > 0, "the embedding still needs its gradient"
    head = 2 * 64 * 64 * 1000
    forward = flops(run(freeze=("embedding", "layers", "head"))).model
    assert flops(resolved).model - forward == head


@pytest.mark.parametrize("runtime", ["megatron", "fsdp2", "accelerate", "ddp", "deepspeed"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_frozen_trunk_is_weighed_under_every_stack(runtime: str, recompute: Any) -> None:
    frozen: dict[str, Any] = {"freeze": ("embedding", "layers"), "recompute": recompute}
    whole = {"runtime": runtime, "recompute": recompute, "seq": 64}
    answers = [estimate(DENSE, Plan(**plan), cluster(2)) for plan in ({**whole, **frozen}, whole)]
    trunk, full = (answer.memory.peak_bytes.allocated for answer in answers)
    assert trunk < full
    assert answers[0].step.seconds < answers[1].step.seconds


def test_frozen_experts_have_no_gradients_and_routers_still_do() -> None:
    resolved = run(MIXTURE, freeze=("experts",))
    trains = {w.name for w, _ in only(resolved).weights() if w.trains}
    assert not any(name.startswith("moe.expert") for name in trains)
    assert "moe.router.weight" in trains
