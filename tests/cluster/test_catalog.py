from __future__ import annotations

import math
from dataclasses import fields

import pytest

from tonnage.cluster import DEVICES, Device, Link
from tonnage.dtype import DTYPES, dtype
from tonnage.errors import InputError

BY_NAME = {device.name: device for device in DEVICES}
FIGURES = [
    field.name
    for field in fields(Device)
    if field.name not in ("name", "vendor", "source", "sources", "aliases")
]
PEAK_KEYS = {entry.peak for entry in DTYPES}

every_device = pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(DEVICES)


@every_device
def test_every_figure_has_a_source(device: Device) -> None:
    for figure in FIGURES:
        assert device.source_of(figure).strip()
    assert set(device.sources) <= set(FIGURES), "a source for a figure that does not exist"
    for link in (device.scale_up, device.network):
        assert link.source.strip()


@every_device
def test_what_no_datasheet_says_has_a_source_of_its_own(device: Device) -> None:
    # What a driver reports and what a context takes are never in a data sheet.
    same_part = device.source.startswith("taken to be those of")
    assert "context_bytes" in device.sources
    assert "usable_bytes" in device.sources or same_part


@every_device
def test_figures_are_of_a_sensible_size(device: Device) -> None:
    # The driver reports from 5 % under the nominal figure to 8 % over (GB against GiB).
    assert 0.95 <= device.usable_bytes / device.memory_bytes <= 1.08
    assert 0.5e12 < device.bandwidth < 10e12
    assert 100 <= device.tdp_watts <= 1500
    assert 10 < device.multiprocessors < 400
    assert 0 < device.context_bytes < 2 * 2**30
    assert device.network.bandwidth < device.scale_up.bandwidth <= device.bandwidth
    assert device.scale_up_domain % device.gpus_per_node == 0
    assert {type(getattr(device, name)) for name in ("memory_bytes", "usable_bytes")} == {int}


@every_device
def test_peaks_are_dense_and_in_order(device: Device) -> None:
    assert set(device.peak) <= PEAK_KEYS
    assert "fp16" in device.peak
    ladder = [
        device.peak[key] for key in ("fp32", "tf32", "fp16", "fp8", "fp4") if key in device.peak
    ]
    assert ladder == sorted(ladder)
    if "bf16" in device.peak:
        assert device.peak["bf16"] == device.peak["fp16"]
    if "fp8" in device.peak:
        # A figure with sparsity that slipped in would make this 4.
        assert device.peak["fp8"] == pytest.approx(2 * device.peak["fp16"], rel=2e-3)


@pytest.mark.parametrize(
    ("name", "number_format", "rate"),
    [
        ("H100-SXM5-80GB", "bf16", 989.4e12),
        ("H100-SXM5-80GB", "fp8_e4m3", 1978.9e12),
        ("A100-SXM4-80GB", "bf16", 312e12),
        ("A100-SXM4-80GB", "nf4", 312e12),
        ("V100-SXM2-32GB", "fp16", 125e12),
        ("MI300X-192GB", "bf16", 1307.4e12),
        ("B200-SXM-180GB", "nvfp4", 9000e12),
        ("B200-SXM-180GB", "mxfp6", 4500e12),
    ],
)
def test_peaks_by_number_format(name: str, number_format: str, rate: float) -> None:
    assert BY_NAME[name].peak_flops(number_format) == rate
    assert BY_NAME[name].peak_flops(dtype(number_format)) == rate


def test_what_is_not_published_is_an_error_that_names_what_is() -> None:
    with pytest.raises(InputError) as caught:
        BY_NAME["V100-SXM2-32GB"].peak_flops("bf16", field="--precision")
    assert caught.value.message == (
        "--precision: bf16 has no published peak on V100-SXM2-32GB (accepted: fp32, fp16)"
    )
    with pytest.raises(InputError, match="fp8_e4m3 has no published peak on A100-SXM4-80GB"):
        BY_NAME["A100-SXM4-80GB"].peak_flops("fp8")


def test_nominal_and_usable_memory_of_the_commonest_part() -> None:
    h100 = BY_NAME["H100-SXM5-80GB"]
    assert h100.memory_bytes == 80e9
    assert h100.usable_bytes / 2**30 == pytest.approx(79.19, abs=0.005)


def test_a_device_can_be_a_key() -> None:
    assert len({device: device.name for device in DEVICES}) == len(DEVICES)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.inf, math.nan])
def test_a_link_carries_something(bandwidth: float) -> None:
    with pytest.raises(InputError, match=r"bandwidth: .* carries nothing"):
        Link(name="string", bandwidth=bandwidth, latency=0.0, source="")


@pytest.mark.parametrize("latency", [-1e-6, math.inf, math.nan])
def test_a_link_takes_some_time(latency: float) -> None:
    with pytest.raises(InputError, match=r"latency: .* is no time"):
        Link(name="string", bandwidth=1.0, latency=latency, source="")
