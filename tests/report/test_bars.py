from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.report.bars import bar, gauge


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1, "████"), (0.5, "██"), (2, "████"), (-1, ""), (0.53125, "██▏"), (1e-9, "▏")],
)
def test_bars_go_by_eighths(share: float, drawn: str) -> None:
    assert bar(share, 4, ascii_only=False) == drawn


def test_bars_in_ascii() -> None:
    assert bar(0.5, 4, ascii_only=True) == "##"
    assert bar(0.01, 4, ascii_only=True) == "#"
    assert bar(0, 4, ascii_only=True) == ""


@given(st.floats(0, 10), st.integers(1, 200), st.booleans())
def test_no_bar_is_wider_than_its_column(share: float, width: int, ascii_only: bool) -> None:
    assert len(bar(share, width, ascii_only=ascii_only)) <= width
    filled, empty = gauge(share, width, ascii_only=ascii_only)
    assert len(filled) + len(empty) == width
    assert (filled != "") == (share > 0)
