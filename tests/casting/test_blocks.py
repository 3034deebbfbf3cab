"""Block formats: scales, and what an outlier does to its block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.casting import Block, cast, cast_blocks
from tonnage.dtype import DTYPES, DType, dtype

pytest.importorskip("ml_dtypes")

BLOCKED = [entry for entry in DTYPES if entry.block and entry.name != "nf4"]
VALUES = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=40)


def blocks(name: str, *values: float) -> tuple[Block, ...]:
    return cast_blocks(np.array(values, np.float64), dtype(name))


def test_the_elements_of_mxfp4_need_no_scale_of_their_own() -> None:
    levels = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    (block,) = blocks("mxfp4", *levels)
    assert block.scale == 1.0
    assert block.becomes == levels


def test_a_scale_of_mx_is_a_power_of_two_and_the_largest_may_saturate() -> None:
    (block,) = blocks("mxfp4", 7.9, 1.0)
    assert (block.scale, block.becomes) == (1.0, (6.0, 1.0))
    assert [entry.overflow for entry in cast(np.array([7.9, 1.0]), dtype("mxfp4"))] == [
        "saturates",
        "",
    ]


def test_a_scale_of_nvfp4_takes_the_largest_to_six() -> None:
    (block,) = blocks("nvfp4", 7.9, 1.0)
    assert block.tensor_scale == float(np.float32(7.9 / (6 * 448)))
    assert block.becomes[0] == pytest.approx(7.9, rel=1e-6)
    assert block.scale == pytest.approx(7.9 / 6, rel=1e-6)


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
def test_an_outlier_takes_its_block_to_zero_and_no_other(name: str) -> None:
    size = dtype(name).block
    first, second = blocks(name, 1000.0, *[1.0] * (size - 1), *[1.0] * size)
    assert first.becomes[0] == pytest.approx(1000, rel=0.25)
    assert set(first.becomes[1:]) == {0.0}
    assert first.alone[1:] == pytest.approx([1.0] * (size - 1))
    assert second.first == size
    assert second.becomes == pytest.approx([1.0] * size, rel=0.07)


def test_in_nvfp4_an_outlier_of_the_tensor_takes_scales_of_other_blocks_to_zero() -> None:
    _, second = blocks("nvfp4", 1e8, *[1.0] * 31)
    assert second.scale == 0.0
    assert set(second.becomes) == {0.0}


@pytest.mark.parametrize("entry", BLOCKED, ids=lambda entry: entry.name)
@pytest.mark.parametrize("value", [0.0, 1e-45, -1e-40, 1e-30, 3.4e38])
def test_the_ends_of_the_range(entry: DType, value: float) -> None:
    (block,) = cast_blocks(np.array([np.float32(value)], np.float64), entry)
    assert np.isfinite(block.becomes[0])
    if abs(value) > 1e-36:
        assert block.becomes[0] == pytest.approx(value, rel=0.26)


@given(values=VALUES, entry=st.sampled_from(BLOCKED))
def test_an_error_is_at_most_half_a_step_of_the_block(values: list[float], entry: DType) -> None:
    whole = max(map(abs, values))
    for block in cast_blocks(np.array(values, np.float64), entry):
        largest = max(map(abs, block.values))
        # NVFP4's block scales are E4M3, relative to the largest of the tensor: a block far
        # below it has a scale that is subnormal or nothing.
        if entry.name == "nvfp4" and 448 * largest < 2.0**-6 * whole:
            assert max(map(abs, block.becomes)) <= 2.0**-6 / 448 * whole * 1.26
            continue
        for value, after in zip(block.values, block.becomes, strict=True):
            # The top step of E2M1 is 2 of 6, and MX saturates by up to a quarter.
            assert abs(after - value) <= largest * 0.26 + 1e-38


@given(values=VALUES, entry=st.sampled_from(BLOCKED))
def test_blocks_hold_every_value_once_in_order(values: list[float], entry: DType) -> None:
    found = cast_blocks(np.array(values, np.float64), entry)
    assert [value for block in found for value in block.values] == values
    assert [block.first for block in found] == list(range(0, len(values), entry.block))
