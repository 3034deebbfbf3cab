"""Rings, exchanges and gathers over the context-parallel ranks, worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GQA, cluster, layer, model
from tonnage.arch import Architecture
from tonnage.errors import InputError
from tonnage.ledger import Operation, layer_operations, saved_bytes
from tonnage.plan import Plan, Setting, resolve

CP, SEQ, BYTES = 4, 512, 2
TOKENS = SEQ // CP
QUERIES, PAIRS = 8 * 16, 4 * 16
"""Widths of a token's queries (or context) and of its keys (or values) in `DENSE`."""

PLAIN = model("plain", *[layer(dataclasses.replace(GQA, rope=False))] * 8)
"""As `DENSE`, without positions: queries, keys and values are views of one projection."""


def setting(architecture: Architecture = DENSE, **plan: Any) -> Setting:
    run = Plan(cp=CP, seq=SEQ, **plan)
    return resolve(run, architecture, cluster(8)).setting


def core(run: Setting) -> Operation:
    operations = layer_operations(run, run.architecture.layers[0])
    return next(operation for operation in operations if operation.name == "attention.core")


def kept(run: Setting) -> int:
    return int(saved_bytes(run, layer_operations(run, run.architecture.layers[0])))


def test_an_exchange_keeps_the_context_on_both_of_its_sides() -> None:
    extra = kept(setting(cp_comm="a2a")) - kept(setting(cp_comm="p2p"))
    assert extra == BYTES * TOKENS * QUERIES


def test_a_gather_keeps_what_a_ring_with_turned_keys_keeps() -> None:
    assert kept(setting(cp_comm="allgather")) == kept(setting(cp_comm="p2p"))


def test_a_ring_joins_keys_and_values_beside_their_projection() -> None:
    ring, gathered = (setting(PLAIN, cp_comm=name) for name in ("p2p", "allgather"))
    assert kept(ring) - kept(gathered) == BYTES * TOKENS * 2 * PAIRS
    own = setting(PLAIN, cp_comm="p2p", habits=(("ring_keys", "own"),))
    assert kept(own) == kept(gathered)


def test_what_each_sends() -> None:
    """By pass: a ring K and V once around; an exchange all four; a gather the whole of both."""
    local, whole = BYTES * TOKENS * 2 * PAIRS, BYTES * SEQ * 2 * PAIRS
    inputs, context = BYTES * TOKENS * (QUERIES + 2 * PAIRS), BYTES * TOKENS * QUERIES
    expected = {
        "p2p": [("send", 3 * local, "forward"), ("send", 6 * local, "backward")],
        "a2a": [
            ("all_to_all", inputs, "forward"),
            ("all_to_all", context, "forward"),
            ("all_to_all", context, "backward"),
            ("all_to_all", inputs, "backward"),
        ],
        "allgather": [
            ("all_gather", whole, "forward"),
            ("all_gather", whole, "backward"),
            ("reduce_scatter", whole, "backward"),
        ],
    }
    for name, sent in expected.items():
        found = core(setting(cp_comm=name)).collectives
        assert [(c.kind, c.bytes, c.phase) for c in found] == sent
        assert {c.axis for c in found} == {"cp"}


def test_all_keys_and_values_live_while_a_gathered_core_runs() -> None:
    whole = BYTES * SEQ * 2 * PAIRS
    operation = core(setting(cp_comm="allgather", attention_version=3))
    assert sum(int(t.bytes) for t in operation.scratch) == whole
    assert sum(int(t.bytes) for t in operation.scratch_backward) == 2 * whole


@pytest.mark.parametrize("rule", ["p2p", "a2a", "allgather"])
@pytest.mark.parametrize("architecture", [DENSE, PLAIN, DEEPSEEK], ids=lambda a: a.name)
def test_one_rank_shares_with_nobody(rule: str, architecture: Architecture) -> None:
    one = Plan(seq=SEQ, cp_comm=rule)  # type: ignore[arg-type]
    alone = resolve(one, architecture, cluster(8)).setting
    operation = core(alone)
    assert not sum(int(t.bytes) for t in operation.scratch)
    other = resolve(Plan(seq=SEQ), architecture, cluster(8)).setting
    assert kept(alone) == kept(other)


@pytest.mark.parametrize("rule", ["p2p", "a2a", "allgather"])
def test_a_column_of_degrees_is_what_each_gives(rule: str) -> None:
    degrees = (1, 2, 4)
    each = [
        kept(resolve(Plan(seq=SEQ, cp=cp, cp_comm=rule), PLAIN, cluster(8)).setting)  # type: ignore[arg-type]
        for cp in degrees
    ]
    run = setting(PLAIN, cp_comm=rule).columns(cp=np.array(degrees))
    column = saved_bytes(run, layer_operations(run, PLAIN.layers[0]))
    assert column.tolist() == each


def test_an_exchange_gives_whole_heads_away() -> None:
    with pytest.raises(InputError, match="key-value heads"):
        setting(tp=2, cp_comm="a2a")
