"""FLOPs of einsums, held to numpy's count and to PyTorch's counter."""

from __future__ import annotations

import contextlib
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.dtype import DTYPES, DType, dtype
from tonnage.errors import InputError
from tonnage.intensity import Work, find_operation
from tonnage.intensity.pattern import Pattern, parse_pattern

LETTERS = "abcdef"


def numpy_flops(pattern: Pattern, sizes: dict[str, int]) -> float:
    """The count of ``numpy.einsum_path`` for the best order, without a limit on memory."""
    text = ",".join("".join(axes) for axes in pattern.operands) + "->" + "".join(pattern.output)
    arrays = [np.empty([sizes[axis] for axis in axes]) for axes in pattern.operands]
    _, report = np.einsum_path(text, *arrays, optimize=("optimal", 10**18))
    found = re.search(r"Optimized FLOP count: +([0-9.e+]+)", report)
    assert found is not None
    return float(found[1]) - 1  # it adds one, so that it can divide by it


@st.composite
def einsums(draw: st.DrawFn) -> tuple[Pattern, dict[str, int]]:
    axes = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3, unique=True)
    operands = draw(st.lists(axes, min_size=2, max_size=4))
    known = sorted({axis for operand in operands for axis in operand})
    output = draw(st.lists(st.sampled_from(known), max_size=len(known), unique=True))
    sizes = {axis: draw(st.integers(2, 5)) for axis in known}
    return Pattern(operands=tuple(map(tuple, operands)), output=tuple(output)), sizes


def written(pattern: Pattern) -> str:
    return ", ".join(map(" ".join, pattern.operands)) + " -> " + " ".join(pattern.output)


@settings(deadline=None)
@given(einsums())
def test_flops_of_products_against_those_that_numpy_counts(
    case: tuple[Pattern, dict[str, int]],
) -> None:
    """The same for two operands; for more, numpy's search may miss the cheapest order."""
    pattern, sizes = case
    counted = find_operation(written(pattern), sizes).flops
    # Four digits are printed, so that what numpy adds may be lost in them.
    reference = numpy_flops(pattern, sizes)
    if len(pattern.operands) == 2:
        assert counted == pytest.approx(reference, rel=1e-3, abs=1)
    assert counted <= reference * (1 + 1e-3) + 1


@settings(deadline=None)
@given(einsums())
def test_every_tensor_moves_once(case: tuple[Pattern, dict[str, int]]) -> None:
    pattern, sizes = case
    work = find_operation(written(pattern), sizes)
    assert work.reads == tuple(math.prod(sizes[a] for a in axes) for axes in pattern.operands)
    assert work.writes == math.prod(sizes[axis] for axis in pattern.output)
    assert work.bytes(dtype("fp32")) == 4 * (sum(work.reads) + work.writes)


def test_the_product_of_queries_and_keys() -> None:
    sizes = {"batch": 8, "seq1": 1024, "seq2": 512, "hidden": 4096}
    work = find_operation("batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2", sizes)
    assert work.flops == 2 * 8 * 1024 * 512 * 4096
    assert work.bytes(dtype("bf16")) == 2 * 8 * (1024 * 4096 + 512 * 4096 + 1024 * 512)


def test_pytorch_counts_the_same_for_a_batched_product() -> None:
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        torch.einsum("bqd,bkd->bqk", torch.empty(2, 3, 5), torch.empty(2, 7, 5))
    sizes = {"b": 2, "q": 3, "k": 7, "d": 5}
    assert counter.get_total_flops() == find_operation("b q d, b k d -> b q k", sizes).flops


@pytest.mark.parametrize(
    ("text", "flops", "convention"),
    [
        ("a b -> b a", 0, "nothing but a copy"),
        ("a b -> a", 6, "an addition an element"),
        ("a b ->", 6, "an addition an element"),
        ("a, b -> a b", 6, "a multiplication for each"),
        ("a b, a b -> a b", 6, "a multiplication for each"),
        ("a b, a b ->", 12, "2 FLOP for each"),
    ],
)
def test_sums_and_products_alone(text: str, flops: int, convention: str) -> None:
    work = find_operation(text, {"a": 2, "b": 3})
    assert work.flops == flops
    assert work.convention.startswith(convention)


def test_several_operands_are_multiplied_in_the_cheapest_order() -> None:
    sizes = {"a": 10, "b": 1000, "c": 2, "d": 1000}
    work = find_operation("a b, b c, c d -> a d", sizes)
    assert work.flops == 2 * 10 * 1000 * 2 + 2 * 10 * 2 * 1000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a b, b c", "needs one ->"),
        ("a -> b -> c", "needs one ->"),
        ("a -> a, b", "more than one output"),
        (", a -> a", "an operand without axes"),
        ("a a -> a", "the axis a twice"),
        ("a b -> a a", "the axis a twice"),
        ("a b -> c", "an output axis that no operand has, c"),
        ("a (b c) -> a", "'(b' where the name"),
        ("a ... -> a", "'...' where the name"),
        ("1 a -> a", "'1' where the name"),
        ("ä -> ä", "where the name"),
        (" , ".join("abcdefghi") + "->", "more than 8 operands"),
        ("a" * 2000 + "->", "longer than"),
    ],
)
def test_a_malformed_pattern_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        find_operation(text, {"a": 2, "b": 3})
    assert problem in caught.value.problem


@pytest.mark.parametrize("text", ["a b", "", "   ", "foo", "->", "a,b"])
def test_what_is_no_operation_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        find_operation(text, {})


@pytest.mark.parametrize(
    ("sizes", "field"),
    [
        ({"a": 2}, "SIZES"),
        ({"a": 2, "b": 3, "c": 4}, "c"),
        ({"a": 0, "b": 3}, "a"),
        ({"a": 2, "b": -3}, "b"),
        ({"a": 2, "b": 2**63}, "b"),
    ],
)
def test_a_size_that_does_not_fit_the_pattern_is_refused(sizes: dict[str, int], field: str) -> None:
    with pytest.raises(InputError) as caught:
        find_operation("a b -> a", sizes)
    assert caught.value.field == field


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_one_error(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_pattern(text).operands


@given(entry=st.sampled_from(DTYPES), count=st.integers(1, 10**6))
def test_bytes_are_those_of_the_format(entry: DType, count: int) -> None:
    work = Work(name="x", sizes={}, flops=0, reads=(count,), writes=count, convention="")
    assert work.bytes(entry) == 2 * entry.storage(count)
