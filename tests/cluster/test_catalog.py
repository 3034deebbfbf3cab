from __future__ import annotations

import math
from dataclasses import fields

import pytest

from tonnage.cluster import DEVICES, LINKS, Device, Link, usual_host
from tonnage.dtype import DTYPES, dtype
from tonnage.errors import InputError

BY_NAME = {device.name: device for device in DEVICES}
FIGURES = [
    field.name
    for field in fields(Device)
    if field.name not in ("name", "vendor", "source", "sources", "aliases")
]
SHARED_MEMORY = (
    *("M1-7-core-8GB", "M1-Max-32-core-64GB", "M3-Max-40-core-64GB", "Strix-Halo-128GB"),
)
# Where FP8 is no faster than BF16, and MXFP8 that is four times as fast.
FP8_RATIO = {
    "Gaudi-3-128GB": 1,
    "TPU-v5p-95GB": 1,
    "TPU-v6e-32GB": 1,
    "Trainium1-32GB": 1,
    "Trainium3-144GB": 3.75,
}
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
def test_a_host_is_slower_than_what_is_in_it(device: Device) -> None:
    host = usual_host(device)
    assert host.source.strip()
    assert host.link.source.strip()
    assert 15e9 < host.link.bandwidth <= 450e9
    assert host.link.bandwidth < device.bandwidth
    assert 200e9 < host.memory <= 1024e9
    assert host.sharing <= device.gpus_per_node
    assert device.gpus_per_node % (host.devices or 1) == 0


@every_device
def test_what_no_datasheet_says_has_a_source_of_its_own(device: Device) -> None:
    # What a driver reports and what a context takes are never in a data sheet.
    same_part = device.source.startswith("taken to be those of")
    assert "context_bytes" in device.sources
    assert "usable_bytes" in device.sources or same_part


@every_device
def test_figures_are_of_a_sensible_size(device: Device) -> None:
    # The driver reports from 5 % under the nominal figure to 8.2 % over (GB against GiB);
    # of memory that is shared with the processor, the GPU gets two thirds and more.
    least = 0.65 if device.name in SHARED_MEMORY else 0.95
    assert least <= device.usable_bytes / device.memory_bytes <= 1.083
    assert 0.05e12 < device.bandwidth < 10e12
    assert device.tdp_watts is None or 50 <= device.tdp_watts <= 1500
    assert device.multiprocessors is None or 1 <= device.multiprocessors < 400
    assert 0 < device.context_bytes < 2 * 2**30
    assert device.network.bandwidth < device.scale_up.bandwidth <= device.bandwidth
    assert device.scale_up_domain % device.gpus_per_node == 0
    assert {type(getattr(device, name)) for name in ("memory_bytes", "usable_bytes")} == {int}


@every_device
def test_peaks_are_dense_and_in_order(device: Device) -> None:
    assert set(device.peak) <= PEAK_KEYS
    assert "fp16" in device.peak or "bf16" in device.peak or device.vendor == "Apple"
    ladder = [
        device.peak[key] for key in ("fp32", "tf32", "fp16", "fp8", "fp4") if key in device.peak
    ]
    assert ladder == sorted(ladder)
    if {"bf16", "fp16"} <= set(device.peak):
        assert device.peak["bf16"] == device.peak["fp16"]
    if "fp8" in device.peak:
        # A figure with sparsity that slipped in would make this 4, or 1.
        ratio = FP8_RATIO.get(device.name, 2)
        assert device.peak["fp8"] == pytest.approx(ratio * device.peak["bf16"], rel=3e-2)


@every_device
def test_the_catalog_says_what_kernels_are_compiled_for(device: Device) -> None:
    assert device.architecture
    if device.vendor == "NVIDIA":
        assert device.architecture in {"sm70", "sm75", "sm80", "sm86", "sm89", "sm90"} | {
            "sm100",
            "sm103",
            "sm120",
        }


def test_there_is_every_device_that_people_train_on() -> None:
    assert len(DEVICES) >= 48
    assert {device.vendor for device in DEVICES} >= {
        *("NVIDIA", "AMD", "Intel", "Google", "AWS", "Huawei"),
    }


@every_device
def test_links_of_a_device_are_in_the_catalog_of_links(device: Device) -> None:
    assert device.scale_up in LINKS
    assert device.network in LINKS


def test_a_figure_that_is_not_published_is_an_error() -> None:
    tpu = BY_NAME["TPU-v5p-95GB"]
    assert tpu.tdp_watts is None
    with pytest.raises(InputError) as caught:
        tpu.published("tdp_watts")
    assert caught.value.message == "tdp_watts: TPU-v5p-95GB has no published figure"
    assert BY_NAME["H100-SXM5-80GB"].published("tdp_watts") == 700


def test_the_ridge_of_the_commonest_part() -> None:
    assert BY_NAME["H100-SXM5-80GB"].ridge("bf16") == pytest.approx(295, abs=0.5)


GEFORCE = [device for device in DEVICES if device.name.startswith(("RTX-3", "RTX-4", "RTX-5"))]


@pytest.mark.parametrize("device", GEFORCE, ids=lambda device: device.name)
def test_geforce_peaks_are_those_with_accumulation_in_fp32(device: Device) -> None:
    # With accumulation in FP16, which is quoted elsewhere, this would be 4.
    assert "FP32" in device.source_of("peak")
    if "fp32" in device.peak:
        assert device.peak["fp16"] == pytest.approx(2 * device.peak["fp32"], rel=5e-3)


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
        ("B300-SXM-288GB", "nvfp4", 13500e12),
        ("MI355X-288GB", "mxfp4", 10066.3e12),
        ("TPU-v5p-95GB", "bf16", 459e12),
        ("Trainium2-96GB", "bf16", 667e12),
        ("Gaudi-2-96GB", "bf16", 432e12),
        ("H20-SXM5-96GB", "bf16", 148e12),
        ("L40S-48GB", "bf16", 362.05e12),
        ("T4-16GB", "fp16", 65e12),
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
