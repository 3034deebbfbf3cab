"""What must hold of the forms of time, whatever their constants."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cluster import find_device, parse_cluster
from tonnage.ledger import Collective
from tonnage.mesh import Axis
from tonnage.timing.collective import collective_seconds
from tonnage.timing.efficiency import Efficiency, sustained_flops
from tonnage.timing.gemm import Product, product_seconds
from tonnage.timing.kernel import product_rates

DEVICES = ("A100-80GB", "H100", "B200", "GB300", "MI300X", "RTX 4090")
WIDTHS = st.integers(1, 20_000)


@pytest.mark.parametrize("name", DEVICES)
def test_no_device_sustains_more_than_its_peak(name: str) -> None:
    device = find_device(name)
    rate = sustained_flops(device, "bf16")
    assert 0 < rate < device.peak_flops("bf16")
    assert sustained_flops(device, "bf16", Efficiency(compute=0.5)) == 0.5 * device.peak_flops(
        "bf16"
    )


def test_less_power_sustains_less() -> None:
    device = find_device("H100")
    weak = dataclasses.replace(device, tdp_watts=350)
    assert sustained_flops(weak, "bf16") == pytest.approx(sustained_flops(device, "bf16") / 2)


@given(m=WIDTHS, n=WIDTHS, k=WIDTHS, more=st.integers(1, 4))
def test_a_product_is_never_faster_than_its_rates_and_grows(
    m: int, n: int, k: int, more: int
) -> None:
    device = find_device("H100")
    rates = product_rates(device, sustained_flops(device, "bf16"), "bf16")
    product = Product(rows=m, columns=n, depth=k)
    seconds = product_seconds(product, rates)
    assert seconds >= max(product.flops / rates.flops, product.bytes / rates.memory)
    larger = dataclasses.replace(product, rows=m * more)
    assert product_seconds(larger, rates) >= seconds * (1 - 1e-9)


def test_a_column_of_products_is_each_of_them() -> None:
    device = find_device("H100")
    rates = product_rates(device, sustained_flops(device, "bf16"), "bf16")
    rows = np.array([1, 64, 4096, 100_000])
    column = product_seconds(Product(rows=rows, columns=4096, depth=1024), rates)
    alone = [product_seconds(Product(rows=int(m), columns=4096, depth=1024), rates) for m in rows]
    np.testing.assert_allclose(column, alone, rtol=1e-12)


KINDS: tuple[Any, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")


@pytest.mark.parametrize("kind", KINDS)
@given(size=st.integers(1, 10**10), ranks=st.sampled_from([2, 4, 8, 16, 64]))
def test_a_collective_grows_and_a_column_is_each_of_them(kind: Any, size: int, ranks: int) -> None:
    cluster = parse_cluster("64xH100")
    axis = Axis(name="dp", size=ranks, stride=1)

    def seconds(count: Any, group: Any = axis) -> Any:
        collective = Collective(kind=kind, axis="dp", bytes=count, phase="forward")
        return collective_seconds(collective, group, cluster)

    assert 0 < seconds(size) <= seconds(2 * size)
    groups = np.array([1, 2, 4, 8, 16, 64])
    column = seconds(size, Axis(name="dp", size=groups, stride=1))
    alone = [float(seconds(size, Axis(name="dp", size=int(n), stride=1))) for n in groups]
    np.testing.assert_allclose(column, alone, rtol=1e-12)


def test_operands_are_fed_at_one_rate_whatever_their_format() -> None:
    """What brings them to a multiprocessor does not know the tensor cores' formats."""
    device = find_device("H100")
    feeds = {
        name: product_rates(device, sustained_flops(device, name), name).feed
        for name in ("bf16", "fp16", "fp32", "tf32")
    }
    assert len(set(feeds.values())) == 1
    rates = product_rates(device, sustained_flops(device, "fp32"), "fp32")
    square = Product(rows=8192, columns=8192, depth=8192, operand_bytes=4, result_bytes=4)
    assert product_seconds(square, rates) < 1.1 * square.flops / rates.flops
