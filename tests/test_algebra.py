"""Arithmetic on columns that are worked out once for each distinct row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tonnage.algebra import Number, by_distinct, smallest, total

COLUMN = st.lists(st.integers(1, 5), min_size=1, max_size=40)


@given(COLUMN, st.integers(1, 5))
def test_distinct_rows_give_the_column(values: list[int], other: int) -> None:
    asked: list[int] = []

    def rule(left: Number, right: Number) -> Number:
        asked.append(len(np.atleast_1d(left)))
        return left * 10.0 + right

    column = np.array(values)
    assert by_distinct(rule, column, other).tolist() == rule(column * 1.0, other).tolist()
    assert asked[0] == len(set(values))


def test_a_rule_of_plain_numbers_is_asked_as_it_is() -> None:
    assert by_distinct(lambda left, right: left - right, 5, 3) == 2


def test_a_rule_that_ignores_its_columns_still_gives_one() -> None:
    assert by_distinct(lambda _: 7.0, np.array([1, 2, 2])).tolist() == [7.0, 7.0, 7.0]


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_sums_and_minima_are_those_of_each_plan(rows: list[list[int]]) -> None:
    columns = [np.array(row) for row in rows]
    assert np.broadcast_to(total([0, *columns]), 3).tolist() == np.sum(columns, axis=0).tolist()
    assert smallest(columns).tolist() == np.min(columns, axis=0).tolist()
