"""Named operations on a device: the known intensities, and what bounds each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cluster import find_device
from tonnage.errors import InputError
from tonnage.intensity import Bounded, bound, find_operation
from tonnage.intensity.named import NAMED

H100 = find_device("H100")


def weigh(text: str, sizes: dict[str, int], dtype: str = "bf16") -> Bounded:
    return bound(find_operation(text, sizes), H100, dtype)


@pytest.mark.parametrize(
    ("text", "sizes", "intensity"),
    [
        ("relu", {"n": 4096}, 0.25),  # 1 FLOP for 2 bytes read and 2 written
        ("gelu", {"n": 4096}, 5.0),
        ("dot", {"n": 1 << 20}, 0.5),
        ("matvec", {"n": 4096}, 1.0),
        ("matvec", {"m": 8192, "n": 4096}, 1.0),
        ("matmul", {"n": 1024}, 1024 / 3),
        ("matmul", {"m": 1024, "n": 1024, "k": 1024}, 1024 / 3),
        ("attention", {"batch": 2, "seq": 4096, "heads": 8, "head_dim": 128}, 4096 / 2),
    ],
)
def test_known_intensities_in_bf16(text: str, sizes: dict[str, int], intensity: float) -> None:
    assert weigh(text, sizes).intensity == pytest.approx(intensity, rel=1e-3)


def test_a_matmul_of_1024_is_past_the_ridge_of_an_h100() -> None:
    small, large = weigh("matmul", {"n": 512}), weigh("matmul", {"n": 1024})
    assert large.ridge == pytest.approx(295, abs=0.5)
    assert (small.bound, large.bound) == ("memory", "compute")
    assert large.seconds == large.compute_seconds == 2 * 1024**3 / H100.peak["bf16"]
    assert small.seconds == small.memory_seconds == 6 * 512**2 / H100.bandwidth


@pytest.mark.parametrize(
    ("name", "pattern", "sizes"),
    [
        ("dot", "n, n ->", {"n": 7}),
        ("matvec", "m n, n -> m", {"m": 3, "n": 5}),
        ("matmul", "m k, k n -> m n", {"m": 3, "n": 5, "k": 7}),
    ],
)
def test_a_named_product_is_its_einsum(name: str, pattern: str, sizes: dict[str, int]) -> None:
    one, other = find_operation(name, sizes), find_operation(pattern, sizes)
    assert (one.flops, one.reads, one.writes) == (other.flops, other.reads, other.writes)


def test_attention_has_the_flops_of_its_two_products() -> None:
    sizes = {"batch": 2, "seq": 16, "heads": 3, "head_dim": 8}
    scores = find_operation(
        "b h q d, b h k d -> b h q k", {"b": 2, "h": 3, "q": 16, "k": 16, "d": 8}
    )
    assert find_operation("attention", sizes).flops == 2 * scores.flops


@given(
    name=st.sampled_from(sorted(NAMED)),
    size=st.integers(1, 4096),
    entry=st.sampled_from(["bf16", "fp16", "fp32", "fp8", "int8"]),
)
def test_time_is_the_larger_of_two_and_the_bound_names_it(name: str, size: int, entry: str) -> None:
    answer = weigh(name, dict.fromkeys(NAMED[name].sizes, size), entry)
    assert answer.seconds == max(answer.compute_seconds, answer.memory_seconds)
    compute = answer.compute_seconds >= answer.memory_seconds
    assert (answer.bound == "compute") == compute or answer.intensity == pytest.approx(answer.ridge)


@pytest.mark.parametrize(
    ("text", "sizes", "field"),
    [
        ("relu", {}, "SIZES"),
        ("matmul", {"m": 4}, "SIZES"),
        ("attention", {"n": 4}, "n"),
        ("relu", {"m": 4}, "m"),
        ("gelu", {"n": 0}, "n"),
        ("matmul", {"n": 2**40}, "SIZES"),
        ("gelu", {"n": 2**62}, "SIZES"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(text: str, sizes: dict[str, int], field: str) -> None:
    with pytest.raises(InputError) as caught:
        weigh(text, sizes)
    assert caught.value.field == field


def test_a_format_without_a_peak_is_refused() -> None:
    with pytest.raises(InputError, match="no published peak"):
        weigh("relu", {"n": 8}, "mxfp4")
