"""Dispatchers of a mixture of experts: what lives on the way, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.strategies import HIDDEN, MIXTURE, cluster
from tonnage.ledger import Operations, layer_operations
from tonnage.memory.liveness import walk
from tonnage.plan import Plan, Setting, resolve

SEQ, EP, TOP = 256, 4, 2
ROW = 2 * HIDDEN
"""Bytes of a token in 16 bits."""


def setting(dispatcher: str, **plan: Any) -> Setting:
    run = Plan(seq=SEQ, ep=EP, moe_dispatcher=dispatcher, **plan)  # type: ignore[arg-type]
    return resolve(run, MIXTURE, cluster(8)).setting


def operations(run: Setting) -> Operations:
    return layer_operations(run, MIXTURE.layers[0])


def sent(run: Setting, name: str) -> list[tuple[str, str, int, str]]:
    (found,) = (operation for operation in operations(run) if operation.name == name)
    return [(c.kind, c.axis, int(c.bytes), c.phase) for c in found.collectives if c.axis == "ep"]


def test_all_to_all_sends_every_copy() -> None:
    copies = SEQ * TOP * ROW
    expected = [("all_to_all", "ep", copies, "forward"), ("all_to_all", "ep", copies, "backward")]
    run = setting("alltoall")
    assert sent(run, "moe.dispatch") == sent(run, "moe.combine") == expected


def test_all_gather_brings_every_token_of_the_group() -> None:
    whole = SEQ * EP * ROW
    run = setting("allgather")
    assert sent(run, "moe.dispatch") == [
        ("all_gather", "ep", whole, "forward"),
        ("reduce_scatter", "ep", whole, "backward"),
    ]
    assert sent(run, "moe.combine") == [
        ("reduce_scatter", "ep", whole, "forward"),
        ("all_gather", "ep", whole, "backward"),
    ]


@pytest.mark.parametrize("ep", [1, 2, 4])
def test_deepep_sends_a_token_to_a_rank_once(ep: int) -> None:
    run = resolve(Plan(seq=SEQ, ep=ep, moe_dispatcher="deepep"), MIXTURE, cluster(8)).setting
    rows = SEQ * min(TOP, ep) * ROW
    assert [size for _, _, size, _ in sent(run, "moe.dispatch")] == [rows, rows]


def test_the_experts_read_and_keep_the_same_whatever_brings_the_tokens() -> None:
    kept = []
    for name in ("alltoall", "allgather", "deepep"):
        found = operations(setting(name))
        tensors = {t.name: int(t.bytes) for op in found for t in op.saves}
        kept.append(tensors)
    assert kept[0] == kept[1] == kept[2]


def test_only_all_to_all_holds_four_copies_at_its_end() -> None:
    """The way back holds own copies, what arrived, the outputs and what returns."""
    peaks = {}
    for name in ("alltoall", "deepep"):
        run = setting(name)
        found = operations(run)
        kept = {t.name: t for op in found for t in op.saves}
        peaks[name] = int(walk(run, found, kept.values()).forward)
    assert peaks["alltoall"] > peaks["deepep"]
