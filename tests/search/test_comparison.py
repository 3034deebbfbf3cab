"""Sides of a comparison are estimates, and their differences are from the first."""

import pytest

from tonnage import InputError, Plan, estimate, load, parse_cluster
from tonnage.search.comparison import compare

LLAMA, NODE = load("llama-3.2-1b"), parse_cluster("8xH100")
PLANS = (Plan(seq=4096), Plan(seq=4096, tp=2))
ANSWERS = tuple(estimate(LLAMA, plan, NODE).to_dict() for plan in PLANS)


def test_only_what_differs_was_asked_differently() -> None:
    found = compare(("a", "b"), ANSWERS)
    asked = {row.name: row.values for row in found.asked}
    assert asked["tp"] == (1, 2)
    assert "seq" not in asked
    assert "model" not in asked


def test_parts_sum_to_their_wholes() -> None:
    rows = {row.name: row for row in compare(("a", "b"), ANSWERS).found}
    parts = [row for row in rows.values() if row.name.startswith("  ")]
    for side in range(2):
        seconds = sum(row.values[side] for row in parts if row.unit == "seconds")
        assert seconds == pytest.approx(rows["step"].values[side])
        memory = sum(row.values[side] for row in parts if row.unit == "bytes")
        assert memory == rows["peak, allocated"].values[side]


def test_a_side_beside_itself_differs_in_nothing() -> None:
    found = compare(("a", "a"), (ANSWERS[0], ANSWERS[0]))
    assert found.asked == ()
    assert all(ratio in (0.0, None) for row in found.found for ratio in row.ratios)


def test_one_side_is_no_comparison() -> None:
    with pytest.raises(InputError, match="stands alone"):
        compare(("a",), ANSWERS[:1])
