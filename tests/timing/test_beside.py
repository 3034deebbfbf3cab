"""Collectives that run beside products of the backward pass."""

from __future__ import annotations

import dataclasses

import pytest

from tonnage.arch import load
from tonnage.cluster import Cluster, parse_cluster
from tonnage.ledger import stage_ledgers
from tonnage.plan import Plan, resolve
from tonnage.timing.kernel import rates
from tonnage.timing.passes import Pass, one_pass

LLAMA = load("llama-2-7b")
NODE, NODES = parse_cluster("8xH100"), parse_cluster("16xH100")


def passes(where: Cluster, plan: Plan, phase: str = "backward") -> list[Pass]:
    """A layer's pass with and without collectives beside its products."""
    found = []
    for beside in ("true", "false"):
        asked = dataclasses.replace(plan, habits=(*plan.habits, ("tp_async", beside)))
        resolved = resolve(asked, LLAMA, where)
        (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
        (layer,) = ledger.layers.values()
        rate = rates(resolved.setting, where.device)
        found.append(one_pass(resolved.setting, layer, phase, rate, where))  # type: ignore[arg-type]
    return found


def plan(**choices: object) -> Plan:
    return Plan(**{"runtime": "nanotron", "seq": 4096, "tp": 8, "mbs": 4, **choices})  # type: ignore[arg-type]


def test_two_thirds_of_backwards_collectives_can_hide_and_none_of_forwards() -> None:
    """Two gathers and two sums of six, where the products are long enough; a tenth shows."""
    beside, apart = (one.exposed["tensor_parallel"] for one in passes(NODE, plan(tp=2)))
    assert beside == pytest.approx(apart * (1 - 0.9 * 4 / 6))
    beside, apart = (one.exposed["tensor_parallel"] for one in passes(NODE, plan(tp=2), "forward"))
    assert beside == apart > 0


@pytest.mark.parametrize("mbs", [1, 2, 8])
@pytest.mark.parametrize("tp", [2, 8, 16])
def test_no_more_is_hidden_than_products_last_nor_than_is_sent(tp: int, mbs: int) -> None:
    beside, apart = passes(NODES, plan(tp=tp, mbs=mbs))
    hidden = apart.exposed["tensor_parallel"] - beside.exposed["tensor_parallel"]
    assert 0 < hidden < min(apart.compute, apart.exposed["tensor_parallel"])
    assert beside.compute == apart.compute


def test_what_is_not_sharded_over_the_sequence_is_not_sent_beside_products() -> None:
    beside, apart = passes(NODE, plan(sp=False))
    assert beside == apart
