"""Arithmetic on columns is that of each plan."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tonnage.algebra import smallest, total


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_sums_and_minima_are_those_of_each_plan(rows: list[list[int]]) -> None:
    columns = [np.array(row) for row in rows]
    assert np.broadcast_to(total([0, *columns]), 3).tolist() == np.sum(columns, axis=0).tolist()
    assert smallest(columns).tolist() == np.min(columns, axis=0).tolist()
