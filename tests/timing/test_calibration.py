"""Constants recovered from measurements that were made of known ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tonnage.cluster import Cluster, Device, find_device
from tonnage.ledger import Collective
from tonnage.mesh import Axis
from tonnage.timing import calibration
from tonnage.timing.attention import flash_seconds
from tonnage.timing.calibration import (
    HEAD,
    AttentionTime,
    CollectiveTime,
    Measurements,
    ProductTime,
    TrafficTime,
    calibrate,
    with_constants,
)
from tonnage.timing.collective import collective_seconds
from tonnage.timing.efficiency import sustained_flops
from tonnage.timing.fit import Unknown, fit
from tonnage.timing.gemm import Product, product_seconds
from tonnage.timing.kernel import flash_rates, memory_rate, product_rates

H100 = find_device("H100")
TRUE = {
    "elementwise_memory": 0.71,
    "elementwise_start": 4.5e-6,
    "host_pass": 2.3e-3,
    "bf16.product_share": 0.52,
    "bf16.product_memory": 0.64,
    "bf16.product_start": 6e-6,
    "bf16.product_wave": 2.2e-6,
    "bf16.product_feed": 90e9,
    "bf16.product_split": 5e-6,
    "bf16.attention_forward": 0.44,
    "bf16.attention_backward": 0.27,
}
LINK = {"start": 11e-6, "hop": 0.9e-6, "low_share": 0.2, "fill": 30e-6, "share": 0.5}
SHAPES = [
    (m, n, k)
    for m in (16, 64, 256, 1024, 4096, 8192)
    for n in (512, 2048, 8192)
    for k in (256, 1024, 4096, 16384)
]


def products(
    device: Device, noise: float = 0.0, shapes: Sequence[tuple[int, int, int]] = SHAPES
) -> list[ProductTime]:
    rates = product_rates(device, sustained_flops(device, "bf16"), "bf16")
    draw = np.random.default_rng(7)
    return [
        ProductTime(
            rows=m,
            columns=n,
            depth=k,
            seconds=float(product_seconds(Product(rows=m, columns=n, depth=k), rates))
            * float(np.exp(noise * draw.standard_normal())),
        )
        for m, n, k in shapes
    ]


def attention(device: Device) -> list[AttentionTime]:
    rates = flash_rates(device, "bf16", calibration.FLASH_GENERATION)
    rows = []
    for seq in (1024, 2048, 8192):
        for phase, times in (("forward", 1.0), ("backward", 2.5)):
            queries = 2 * 16 * seq
            seconds = flash_seconds(
                rates,
                phase,  # type: ignore[arg-type]
                flops=times * 2.0 * queries * seq * HEAD,
                moved=4 * queries * HEAD * 2,
                width=HEAD,
                rows=queries,
            )
            rows.append(
                AttentionTime(batch=2, heads=16, seq=seq, phase=phase, seconds=float(seconds))  # type: ignore[arg-type]
            )
    return rows


def traffic(device: Device) -> list[TrafficTime]:
    start = device.measured["elementwise_start"]
    return [
        TrafficTime(moved=size, seconds=size / memory_rate(device) + start)
        for size in (2**12, 2**16, 2**20, 2**24, 2**28)
    ]


def collectives(device: Device, ranks: tuple[int, ...]) -> list[CollectiveTime]:
    # Without a switch: that one has constants of its own.
    link = dataclasses.replace(device.scale_up, name="a link", measured=LINK)
    cluster = dataclasses.replace(Cluster.of(device, 8), scale_up=link)
    return [
        CollectiveTime(
            kind=kind,
            bytes=size,
            ranks=n,
            seconds=float(
                collective_seconds(
                    Collective(kind=kind, axis="dp", bytes=size, phase="forward"),
                    Axis(name="dp", size=n, stride=1),
                    cluster,
                )
            ),
        )
        for kind in ("all_reduce", "all_gather", "reduce_scatter")
        for size in (2**10, 2**14, 2**17, 2**19, 2**20, 2**22, 2**25, 2**28)
        for n in ranks
    ]


def found(device: Device) -> Mapping[str, float]:
    measured = Measurements(
        products={"bf16": products(device)},
        attention={"bf16": attention(device)},
        traffic=traffic(device),
        host_passes=[2.3e-3, 2.3e-3, 2.3e-3],
    )
    return calibrate(H100, measured).device.measured


def test_known_constants_come_back() -> None:
    back = found(with_constants(H100, TRUE))
    assert set(back) == set(TRUE)
    for name, value in TRUE.items():
        # The form has corners: a split or a tile changes hands near some of the shapes.
        assert back[name] == pytest.approx(value, rel=0.05), name


def test_noise_widens_the_errors_and_moves_little() -> None:
    own = with_constants(H100, TRUE)
    clean = calibrate(H100, Measurements(products={"bf16": products(own)}))
    noisy = calibrate(H100, Measurements(products={"bf16": products(own, noise=0.05)}))
    before, after = clean.fits["bf16 products"], noisy.fits["bf16 products"]
    assert noisy.device.measured["bf16.product_share"] == pytest.approx(0.52, rel=0.05)
    starts = calibration.format_unknowns(H100, "bf16")
    for one, other in zip(before.constants, after.constants, strict=True):
        assert other.error > one.error
        if not other.determined:
            assert other.value == starts[other.name.removeprefix("bf16.")].start
    assert after.after < 0.06 < after.before


def test_what_was_not_measured_is_left_out() -> None:
    shapes = [(m, 8192, k) for m in (4096, 6144, 8192, 16384) for k in (4096, 8192, 16384)]
    large = products(with_constants(H100, TRUE), shapes=shapes)
    answer = calibrate(H100, Measurements(products={"bf16": large}))
    constants = {each.name: each for each in answer.fits["bf16 products"].constants}
    assert constants["bf16.product_share"].determined
    assert not constants["bf16.product_split"].determined
    assert "bf16.product_split" not in answer.device.measured
    # It keeps the value that the time model has for every device.
    usual = calibration.format_unknowns(H100, "bf16")["product_split"].start
    assert constants["bf16.product_split"].value == usual


def test_a_link_comes_back_from_groups_of_several_sizes() -> None:
    base = dataclasses.replace(
        H100, scale_up=dataclasses.replace(H100.scale_up, name="a link", measured={})
    )
    answer = calibrate(base, Measurements(collectives=collectives(base, (2, 4, 8))))
    back = answer.device.scale_up.measured
    for name in ("share", "low_share"):
        assert back[name] == pytest.approx(LINK[name], rel=0.05), name
    assert "exchange" not in back  # no all-to-all was measured
    assert answer.fits["collectives"].after < 0.01


def test_one_group_size_does_not_tell_a_hop_from_a_start() -> None:
    base = dataclasses.replace(
        H100, scale_up=dataclasses.replace(H100.scale_up, name="a link", measured={})
    )
    gather = [row for row in collectives(base, (2,)) if row.kind != "all_reduce"]
    constants = {
        each.name: each
        for each in calibrate(base, Measurements(collectives=gather)).fits["collectives"].constants
    }
    together = ("start", "hop", "fill", "simple_hop")
    assert not all(constants[name].determined for name in together)
    assert constants["share"].determined


def test_two_constants_that_only_act_together_leave_one() -> None:
    x = np.linspace(1.0, 2.0, 20)
    unknowns = [Unknown(name=n, start=1.0, least=1e-3, most=1e3) for n in ("a", "b", "c")]
    answer = fit(unknowns, lambda v: v["a"] * v["b"] * x + v["c"] * x**3, 6.0 * x + 2.0 * x**3)
    found = {each.name: each for each in answer.constants}
    assert found["c"].value == pytest.approx(2.0, rel=1e-3)
    # One of the two is left at its start, and the other then has their product.
    assert sorted([found["a"].determined, found["b"].determined]) == [False, True]
    assert found["a"].value * found["b"].value == pytest.approx(6.0, rel=1e-3)


def test_an_outlier_does_not_move_the_line() -> None:
    x = np.linspace(1.0, 100.0, 30)
    y = 3.0 * x + 5.0
    y[7] *= 20
    unknowns = [Unknown(name=n, start=1.0, least=1e-3, most=1e3) for n in ("slope", "start")]
    answer = fit(unknowns, lambda v: v["slope"] * x + v["start"], y)
    assert answer.values["slope"] == pytest.approx(3.0, rel=0.02)
