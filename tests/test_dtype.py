from __future__ import annotations

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tonnage.dtype import DTYPES, DType, dtype
from tonnage.errors import InputError


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("fp32", 4),
        ("tf32", 4),
        ("fp16", 2),
        ("bf16", 2),
        ("fp8_e4m3", 1),
        ("fp8_e5m2", 1),
        ("e5m6", 1.5),
        ("mxfp8", 1 + 1 / 32),
        ("mxfp6", 0.75 + 1 / 32),
        ("mxfp4", 0.5 + 1 / 32),
        ("nvfp4", 0.5 + 1 / 16),
        ("int8", 1),
        ("int4", 0.5),
        ("nf4", 0.5 + 4 / 64),
    ],
)
def test_bytes_of_an_element_with_its_share_of_a_scale(name: str, size: float) -> None:
    assert dtype(name).bytes == size
    assert isinstance(dtype(name).bytes, int) == (size == int(size))


def test_the_list_of_formats_is_the_one_tested_here() -> None:
    assert [entry.name for entry in DTYPES] == [
        "fp32",
        "tf32",
        "fp16",
        "bf16",
        "fp8_e4m3",
        "fp8_e5m2",
        "e5m6",
        "mxfp8",
        "mxfp6",
        "mxfp4",
        "nvfp4",
        "int8",
        "int4",
        "nf4",
    ]


@pytest.mark.parametrize(
    ("name", "largest", "epsilon"),
    [
        ("fp32", float(np.finfo(np.float32).max), float(np.finfo(np.float32).eps)),
        ("fp16", 65504.0, float(np.finfo(np.float16).eps)),
        ("bf16", 3.3895313892515355e38, 2.0**-7),  # torch.finfo(torch.bfloat16)
        ("fp8_e4m3", 448.0, 0.125),  # OFP8
        ("fp8_e5m2", 57344.0, 0.25),
        ("e5m6", 65024.0, 2.0**-6),  # (2 - 2**-6) * 2**15
        ("mxfp8", 448.0, 0.125),
        ("mxfp6", 7.5, 0.125),  # MX
        ("mxfp4", 6.0, 0.5),
        ("nvfp4", 6.0, 0.5),
        ("int8", 127.0, 1.0),
        ("int4", 7.0, 1.0),
        ("nf4", 1.0, None),
    ],
)
def test_range_and_resolution(name: str, largest: float, epsilon: float | None) -> None:
    assert dtype(name).largest == largest
    assert dtype(name).epsilon == epsilon


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("fp32", "float32"),
        ("fp16", "float16"),
        ("bf16", "bfloat16"),
        ("fp8_e4m3", "float8_e4m3fn"),
        ("fp8_e5m2", "float8_e5m2"),
        ("mxfp8", "float8_e4m3fn"),
        ("mxfp6", "float6_e2m3fn"),
        ("mxfp4", "float4_e2m1fn"),
        ("nvfp4", "float4_e2m1fn"),
    ],
)
def test_every_figure_is_that_of_ml_dtypes(name: str, element: str) -> None:
    found = pytest.importorskip("ml_dtypes").finfo(element)
    entry = dtype(name)
    assert entry.largest == float(found.max)
    assert entry.smallest_normal == float(found.smallest_normal)
    assert entry.smallest_subnormal == float(found.smallest_subnormal)
    assert entry.epsilon == float(found.eps)
    assert (entry.exponent, entry.mantissa) == (found.nexp, found.nmant)


@pytest.mark.parametrize(
    ("name", "smallest"),
    [("fp16", 2.0**-24), ("tf32", 2.0**-136), ("fp8_e4m3", 2.0**-9), ("int8", None), ("nf4", None)],
)
def test_the_smallest_number(name: str, smallest: float | None) -> None:
    assert dtype(name).smallest_subnormal == smallest


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mxfp8", 8.25), ("mxfp6", 6.25), ("mxfp4", 4.25), ("nvfp4", 4.5), ("bf16", 16), ("int4", 4)],
)
def test_effective_bits_have_the_share_of_a_scale(name: str, bits: float) -> None:
    assert dtype(name).effective_bits == bits


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("float32", "fp32"),
        ("half", "fp16"),
        ("bfloat16", "bf16"),
        ("torch.bfloat16", "bf16"),
        ("BF16", "bf16"),
        ("fp8", "fp8_e4m3"),
        ("e4m3", "fp8_e4m3"),
        ("float8_e4m3fn", "fp8_e4m3"),
        ("fp8-e5m2", "fp8_e5m2"),
        ("fp4", "nvfp4"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert dtype(alias).name == name


def test_an_unknown_format_names_those_that_are_known() -> None:
    with pytest.raises(InputError) as caught:
        dtype("fp12", field="--precision")
    assert caught.value.message == (
        "--precision: fp12 is not a number format that Tonnage knows (accepted: fp32, tf32, "
        "fp16, bf16, fp8_e4m3, fp8_e5m2, e5m6, mxfp8, mxfp6, mxfp4, nvfp4, int8, int4, nf4)"
    )


@given(entry=st.sampled_from(DTYPES), elements=st.integers(0, 10**12))
def test_storage_is_bytes_times_elements_up_to_the_last_block(entry: DType, elements: int) -> None:
    exact = elements * entry.bytes
    assert exact <= entry.storage(elements) < exact + 1 + entry.scale_bits / 8 + 1e-3
    assert entry.storage(64 * elements) == 64 * elements * entry.bytes


@given(entry=st.sampled_from(DTYPES), elements=st.lists(st.integers(0, 2**40), min_size=1))
def test_storage_of_a_column_is_a_column_of_storage(entry: DType, elements: list[int]) -> None:
    column = entry.storage(np.array(elements))
    assert column.dtype == np.int64
    assert column.tolist() == [entry.storage(count) for count in elements]


def test_storage_of_a_symbol_is_a_formula() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    assert dtype("bf16").storage(n) == 2 * n
    assert dtype("nvfp4").storage(n).subs(n, 17) == dtype("nvfp4").storage(17) == 11
