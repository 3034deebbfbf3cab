"""Rounding to nearest even, held to exact arithmetic on fractions and to ml_dtypes."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.casting import CASTS, cast, read_values
from tonnage.casting.elements import ELEMENTS, round_to, saturated
from tonnage.dtype import DType, dtype
from tonnage.errors import InputError, MissingPartError

ml_dtypes = pytest.importorskip("ml_dtypes")

PLAIN = [entry for entry in CASTS if not entry.block]
FLOATING = [entry for entry in CASTS if entry.exponent]
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)


def nearest(value: float, entry: DType) -> Fraction:
    """The nearest element, were the exponent without an upper end; ties to even."""
    exact = Fraction(value)
    least = entry.smallest_subnormal
    if not exact or least is None:
        return Fraction(round(exact))
    exponent = math.frexp(value)[1] - 1
    step = max(Fraction(2) ** (exponent - entry.mantissa), Fraction(least))
    return round(exact / step) * step


@given(value=SINGLES, entry=st.sampled_from(CASTS))
def test_saturating_casts_equal_exact_rounding(value: float, entry: DType) -> None:
    kept = max(-entry.largest, min(entry.largest, value))
    assert Fraction(float(saturated(np.array([value]), entry)[0])) == nearest(kept, entry)


@given(value=SINGLES, entry=st.sampled_from(PLAIN))
def test_a_cast_overflows_where_rounding_passes_the_largest(value: float, entry: DType) -> None:
    (found,) = cast(np.array([value]), entry)
    low = entry.largest + (not entry.exponent)
    within = -low <= nearest(value, entry) <= Fraction(entry.largest)
    assert (found.overflow == "") == within
    if within:
        assert Fraction(found.becomes) == nearest(value, entry)


@given(value=SINGLES, name=st.sampled_from(["bf16", "fp8_e4m3", "fp8_e5m2"]))
def test_casts_are_those_of_ml_dtypes(value: float, name: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.array([value], np.float32).astype(getattr(ml_dtypes, ELEMENTS[name]))
    found = round_to(np.array([value]), dtype(name))
    np.testing.assert_array_equal(found, expected.astype(np.float64))


@pytest.mark.parametrize(
    ("text", "name", "becomes", "overflow"),
    [
        ("1e-8", "fp16", 0.0, ""),
        ("3e-8", "fp16", 2.0**-24, ""),
        ("1e-8", "bf16", 1.00117176771164e-08, ""),
        ("448.1", "fp8_e4m3", 448.0, ""),
        ("464", "fp8_e4m3", 448.0, ""),  # half of the way to 480: to even
        ("465", "fp8_e4m3", math.nan, "nan"),
        ("65519", "fp16", 65504.0, ""),
        ("65520", "fp16", math.inf, "inf"),
        ("-1e6", "fp8_e5m2", -math.inf, "inf"),
        ("2.5", "int8", 2.0, ""),
        ("-128.5", "int8", -128.0, ""),
        ("128", "int8", 127.0, "saturates"),
        ("-9", "int4", -8.0, "saturates"),
        ("1.00048828125", "tf32", 1.0, ""),  # 1 + 2**-11: to even
        ("1.00049", "tf32", 1 + 2.0**-10, ""),
    ],
)
def test_known_casts(text: str, name: str, becomes: float, overflow: str) -> None:
    (found,) = cast(read_values([text], field="cast"), dtype(name))
    assert found.becomes == pytest.approx(becomes, rel=1e-12, abs=0, nan_ok=True)
    assert found.overflow == overflow


@pytest.mark.parametrize("entry", FLOATING, ids=lambda entry: entry.name)
def test_overflow_starts_half_a_step_past_the_largest(entry: DType) -> None:
    if entry.name in ("fp32", "bf16", "tf32"):
        pytest.skip("the next number is past FP32, in which values come")
    with np.errstate(over="ignore"):
        below = np.nextafter(entry.overflows_at, 0)
    assert float(saturated(np.array([below]), entry)[0]) == entry.largest


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e39", "x", "", "0x10", "1,2", "١"])
def test_what_is_no_fp32_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cast"):
        read_values([text], field="cast")


def test_none_and_too_many_values_are_refused() -> None:
    for texts in ([], ["1"] * 5000):
        with pytest.raises(InputError):
            read_values(texts, field="cast")


def test_without_ml_dtypes_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert round_to(np.array([1.0]), dtype("fp16")) == 1.0
    with pytest.raises(MissingPartError, match=r"tonnage\[formats\]"):
        round_to(np.array([1.0]), dtype("bf16"))
