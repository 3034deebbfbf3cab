"""Values that are worked out once for each distinct row, and looked up after."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tonnage.timing import known
from tonnage.timing.known import Known

Floats = NDArray[np.float64]
COLUMN = st.lists(st.integers(1, 5), min_size=1, max_size=40)


class Rule:
    """A function of two columns that counts the rows it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, left: Floats, right: Floats) -> Floats:
        self.asked += len(left)
        return left * 10.0 + right


@given(st.lists(st.tuples(COLUMN, st.integers(1, 3)), min_size=1, max_size=4))
def test_columns_are_as_if_worked_out_and_each_row_is_once(
    asked: list[tuple[list[int], int]],
) -> None:
    rule = Rule()
    table = Known(rule)
    for column, other in asked:
        found = table(np.array(column), other)
        assert found.tolist() == [10.0 * value + other for value in column]
    assert rule.asked == len({(value, other) for column, other in asked for value in column})


def test_rows_that_share_a_code_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_mixed", lambda rows: np.zeros(rows.shape[1], dtype=np.uint64))
    table = Known(Rule())
    assert table(np.array([1.0, 2.0, 1.0]), 3.0).tolist() == [13.0, 23.0, 13.0]
    assert table(np.array([4.0, 2.0]), 1.0).tolist() == [41.0, 21.0]


def test_too_many_rows_are_forgotten_and_worked_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 3)
    rule = Rule()
    table = Known(rule)
    assert table(np.arange(5.0), 0.0).tolist() == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert table(np.arange(3.0, 7.0), 0.0).tolist() == [30.0, 40.0, 50.0, 60.0]
    assert rule.asked == 9
