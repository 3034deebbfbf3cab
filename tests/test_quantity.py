from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.quantity import (
    GIB,
    LARGEST,
    BytesOrFraction,
    format_bytes,
    format_count,
    format_flops,
    format_percent,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_bytes_or_fraction,
    parse_count,
    parse_fraction,
    parse_seconds,
)

Parser = Callable[..., Any]
PARSERS: tuple[Parser, ...] = (
    parse_count,
    parse_bytes,
    parse_seconds,
    parse_fraction,
    parse_bytes_or_fraction,
)


def refusal(parse: Parser, text: object) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(text, field="--size")
    assert caught.value.field == "--size"
    return caught.value


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("70B", 70_000_000_000),
        ("70b", 70_000_000_000),
        ("15T", 15_000_000_000_000),
        ("14.8T", 14_800_000_000_000),
        ("4M", 4_000_000),
        ("128k", 128_000),
        ("1G", 10**9),
        ("2P", 2 * 10**15),
        ("9E", 9 * 10**18),
        ("1e12", 10**12),
        ("1.5e3", 1500),
        ("1E3", 1000),
        ("4096", 4096),
        ("2_000_000", 2_000_000),
        (" 8.03 B ", 8_030_000_000),
        ("+3", 3),
        (4096, 4096),
        (1e12, 10**12),
        (str(LARGEST), LARGEST),
    ],
)
def test_counts_as_people_write_them(text: str | int | float, count: int) -> None:
    assert parse_count(text, field="--tokens") == count


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("-5", "is negative"),
        ("0", "is zero"),
        ("-0", "is zero"),
        ("0.5", "is not a whole number"),
        ("1.5", "is not a whole number"),
        ("nan", "is not a finite number"),
        ("inf", "is not a finite number"),
        ("-inf", "is not a finite number"),
        (float("nan"), "is not a finite number"),
        (float("inf"), "is not a finite number"),
        (True, "is not a number with an optional unit"),
        (None, "is not a number with an optional unit"),
        ("1__0", "is not a number with an optional unit"),
        ("1,000", "is not a number with an optional unit"),
        ("٣", "is not a number with an optional unit"),
        ("１２", "is not a number with an optional unit"),
        ("70Q", "has an unknown unit, Q"),
        ("80GB", "has an unknown unit, GB"),
        ("5%", "has an unknown unit, %"),
        ("1e19", "is too large (the largest is 2**63 - 1)"),
        (str(LARGEST + 1), "is too large (the largest is 2**63 - 1)"),
        ("1e999", "is too large"),
        ("1e-999", "is too small"),
        ("1e99999", "is not a number with an optional unit"),
    ],
)
def test_what_is_no_count(text: object, problem: str) -> None:
    error = refusal(parse_count, text)
    assert error.problem == problem
    assert error.accepted == "a whole number of at least 1, such as 4096, 4M, 70B or 15T"


def test_a_minimum_is_named() -> None:
    assert parse_count("0", field="--pp", minimum=0) == 0
    with pytest.raises(
        InputError, match=r"is less than 2 \(accepted: a whole number of at least 2"
    ):
        parse_count("1", field="--pp", minimum=2)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("80GiB", 80 * GIB),
        ("80GB", 80 * 10**9),
        ("80gb", 80 * 10**9),
        ("80gib", 80 * GIB),
        ("512MB", 512 * 10**6),
        ("1.5 TiB", 3 * 2**39),
        ("1024", 1024),
        ("1024B", 1024),
        ("0.5KiB", 512),
    ],
)
def test_bytes_as_people_write_them(text: str, count: int) -> None:
    assert parse_bytes(text, field="--memory-limit") == count


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("80G", "could mean GB (decimal) or GiB (binary)"),
        ("80m", "could mean MB (decimal) or MiB (binary)"),
        ("80Gb", "is in Gb, which reads as bits"),
        ("80Gib", "is in Gib, which reads as bits"),
        ("80Gbit", "has an unknown unit, Gbit"),
        ("0", "is zero"),
        ("0.3", "is not a whole number"),
        ("-1GB", "is negative"),
    ],
)
def test_what_is_no_number_of_bytes(text: str, problem: str) -> None:
    assert refusal(parse_bytes, text).problem == problem


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("10d", 864_000.0),
        ("2h", 7200.0),
        ("30min", 1800.0),
        ("12.5 ms", 0.0125),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("3 weeks", 1_814_400.0),
        ("144 days", 12_441_600.0),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_seconds(text, field="--time") == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("90", "has no unit"),
        ("5m", "has an unknown unit, m"),
        ("0s", "is zero"),
        ("-1h", "is negative"),
        ("1h30", "is not a number with an optional unit"),
    ],
)
def test_what_is_no_duration(text: str, problem: str) -> None:
    assert refusal(parse_seconds, text).problem == problem


@pytest.mark.parametrize(
    ("text", "fraction"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1.0), ("1", 1.0), ("0", 0.0)]
)
def test_fractions_as_people_write_them(text: str, fraction: float) -> None:
    assert parse_fraction(text, field="--margin") == fraction


def test_a_number_above_one_is_no_fraction_and_the_hint_says_what_was_meant() -> None:
    assert refusal(parse_fraction, "5").hint == "write 5% for 5 per cent"
    assert refusal(parse_fraction, "120%").hint == ""
    assert refusal(parse_fraction, "5GB").problem == "has an unknown unit, GB"


def test_bytes_or_a_fraction() -> None:
    def parsed(text: str) -> BytesOrFraction:
        return parse_bytes_or_fraction(text, field="--margin")

    assert parsed("4GiB").of(80 * GIB) == 4 * GIB
    assert parsed("1024").of(80 * GIB) == 1024
    assert parsed("0").of(80 * GIB) == 0
    assert parsed("5%").of(80 * GIB) == 4 * GIB
    assert parsed("0.05").of(80 * GIB) == 4 * GIB
    assert refusal(parse_bytes_or_fraction, "1.5").hint == "write 1.5% for 1.5 per cent"


ABSURD = {
    "digits": "9" * 10**6,
    "digits and unit": "9" * 10**6 + "GB",
    "int": 10**10**5,
    "exponent": "1e" + "9" * 10**6,
    "spaces": " " * 10**6,
    "underscores": "_" * 10**6,
}


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("text", ABSURD.values(), ids=ABSURD)
def test_what_is_absurdly_long_is_refused_at_once(parse: Parser, text: object) -> None:
    started = time.perf_counter()
    error = refusal(parse, text)
    assert time.perf_counter() - started < 0.5
    assert len(error.message) < 300


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text())
def test_any_text_is_read_or_refused(parse: Parser, text: str) -> None:
    with suppress(InputError):
        assert parse(text, field="--size") is not None


@given(count=st.integers(1, LARGEST))
def test_every_count_reads_back_exactly(count: int) -> None:
    assert parse_count(str(count), field="") == count
    assert parse_bytes(f"{count:_}", field="") == count


@given(thousandths=st.integers(1, 10**6), suffix=st.sampled_from("kMBGTP"))
def test_decimals_are_exact(thousandths: int, suffix: str) -> None:
    power = {"k": 3, "M": 6, "B": 9, "G": 9, "T": 12, "P": 15}[suffix]
    text = f"{thousandths // 1000}.{thousandths % 1000:03d}{suffix}"
    assert parse_count(text, field="") == thousandths * 10 ** (power - 3)


@given(count=st.integers(1, 10**15))
def test_what_is_printed_reads_back_to_its_precision(count: int) -> None:
    assert parse_count(format_count(count), field="") == pytest.approx(count, rel=0.005)
    assert parse_bytes_printed(format_bytes(count)) == pytest.approx(count, rel=0.005)


def parse_bytes_printed(text: str) -> float:
    number, unit = text.split()
    return float(number) * parse_bytes(f"1{unit}", field="")


@given(seconds=st.floats(1e-9, 1e9))
def test_printed_durations_read_back_to_their_precision(seconds: float) -> None:
    text = format_seconds(seconds)
    assert parse_seconds(text, field="") == pytest.approx(seconds, rel=0.0051)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (74.5 * GIB, "74.50 GiB"),
        (1500 * GIB, "1500.00 GiB"),
        (512 * 2**20, "512.00 MiB"),
        (GIB - 1, "1.00 GiB"),
        (2048, "2.00 KiB"),
        (1023, "1023 B"),
        (0, "0 B"),
        (-2 * GIB, "-2.00 GiB"),
    ],
)
def test_bytes_are_printed_in_binary_units(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (8_030_261_248, "8.03 B"),
        (671e9, "671 B"),
        (14.8e12, "14.8 T"),
        (999, "999"),
        (999_499, "999 K"),
        (999_500, "1.00 M"),
        (9_996, "10.0 K"),
        (0, "0"),
        (1.5, "1.50"),
        (-3e6, "-3.00 M"),
    ],
)
def test_counts_are_printed_with_three_digits(count: float, text: str) -> None:
    assert format_count(count) == text


def test_flops_rates_and_shares() -> None:
    assert format_flops(6.3e24) == "6.30e24 FLOP"
    assert format_flops(1.5e15) == "1.50 PFLOP"
    assert format_flops(123e12) == "123 TFLOP"
    assert format_rate(989.4e12) == "989 TFLOP/s"
    assert format_rate(3.35e12, "B/s") == "3350 GB/s"
    assert format_rate(50e9, "B/s") == "50.0 GB/s"
    assert format_rate(12_300, "tokens/s") == "12.3 K tokens/s"
    assert format_percent(0.4532) == "45.3%"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3e-9, "3.00 ns"),
        (12.3e-6, "12.3 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.00 s"),
        (1.234, "1.23 s"),
        (90, "90.0 s"),
        (45 * 60, "45.0 min"),
        (7200, "2.00 h"),
        (36 * 3600, "36.0 h"),
        (144 * 86400, "144 days"),
    ],
)
def test_durations_are_printed_in_the_unit_that_suits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
