"""A table of pieces grows as plans are asked for, and answers as if it had known them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, cluster
from tests.search.groups import grouped
from tonnage.arch import Architecture
from tonnage.estimation import estimate
from tonnage.plan import Plan, resolve
from tonnage.search import slices
from tonnage.search.evaluate import evaluate, plan_of
from tonnage.search.group import Group, Weighed
from tonnage.search.slices import CHUNK, prepare, table_of
from tonnage.search.table import DECIDING

EIGHT = cluster(8)


def group(architecture: Architecture, *changes: dict[str, Any]) -> Group:
    plans = [Plan(seq=128, sp=True, grad_acc=4, **change) for change in changes]
    return grouped([resolve(plan, architecture, EIGHT) for plan in plans])


FIRST: tuple[dict[str, Any], ...] = ({"tp": 2, "mbs": 1}, {"tp": 4, "mbs": 2})
SECOND: tuple[dict[str, Any], ...] = ({"tp": 4, "mbs": 2}, {"tp": 1, "mbs": 3}, {"tp": 4, "mbs": 1})


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_tables", type(slices._tables)())


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another has left."""
    forget(monkeypatch)


def same(one: Weighed, other: Weighed) -> None:
    for name in ("allocated", "reserved", "device", "worst_stage", "seconds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("architecture", [DENSE, DEEPSEEK], ids=lambda a: a.name)
def test_pages_answer_as_one_table_does(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = group(architecture, *SECOND)
    alone = evaluate(architecture, wanted, EIGHT)
    forget(monkeypatch)
    evaluate(architecture, group(architecture, *FIRST), EIGHT)
    assert table_of(architecture).lengths == [2]
    same(evaluate(architecture, wanted, EIGHT), alone)
    assert table_of(architecture).lengths == [2, 2]


def test_one_row_is_a_page() -> None:
    """All its numbers are plain, and are checked as those of one plan are."""
    spread = group(DEEPSEEK, {"tp": 1, "ep": 4, "mbs": 2})
    found = evaluate(DEEPSEEK, spread, EIGHT)
    alone = estimate(DEEPSEEK, plan_of(spread, 0), EIGHT)
    assert found.device[0] == alone.memory.peak_bytes.device
    assert found.seconds[0] == pytest.approx(alone.step.seconds, rel=1e-12)


def test_a_group_of_nothing_weighs_nothing() -> None:
    one = group(DENSE, {"tp": 2})
    none = Group(plan=one.plan, columns={n: c[:0] for n, c in one.columns.items()})
    assert evaluate(DENSE, none, EIGHT).seconds.shape == (0,)


def test_what_is_prepared_is_one_page() -> None:
    both = group(DENSE, *FIRST, *SECOND)
    prepare(DENSE, both.columns)
    evaluate(DENSE, group(DENSE, *FIRST), EIGHT)
    evaluate(DENSE, group(DENSE, *SECOND), EIGHT)
    assert table_of(DENSE).lengths == [4]


def test_a_group_past_a_chunk_is_weighed_slice_by_slice() -> None:
    few = group(DENSE, *SECOND)
    place = np.arange(CHUNK + 3) % len(few)
    many = Group(plan=few.plan, columns={n: c[place] for n, c in few.columns.items()})
    found, once = evaluate(DENSE, many, EIGHT), evaluate(DENSE, few, EIGHT)
    np.testing.assert_array_equal(found.device, once.device[place])
    np.testing.assert_array_equal(found.seconds, once.seconds[place])


def test_a_column_has_room_for_so_many_values() -> None:
    table = table_of(DENSE)
    columns: dict[str, Any] = dict.fromkeys(DECIDING, 1)
    limit = 1 << DECIDING["etp"]
    table.rows({**columns, "etp": np.arange(1, limit + 1)})
    with pytest.raises(ValueError, match="values of etp"):
        table.rows({**columns, "etp": np.array([limit + 1])})
