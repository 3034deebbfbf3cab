from __future__ import annotations

import csv
import gzip
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.cluster import DEVICES, LINKS, Device, find_device, find_link
from tonnage.errors import InputError

MEASURED = Path(__file__).parents[2].parent / "shared" / "truth"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100-40GB", "A100-SXM4-40GB"),
        ("a100 80gb", "A100-SXM4-80GB"),
        ("A100", "A100-SXM4-80GB"),
        ("A100-40G", "A100-SXM4-40GB"),
        ("A100-PCIe", "A100-PCIe-80GB"),
        ("A100-PCIe-40GB", "A100-PCIe-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("V100", "V100-SXM2-32GB"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("H100", "H100-SXM5-80GB"),
        ("h100-sxm", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
        ("NVIDIA H100 NVL", "H100-NVL-94GB"),
        ("H100-94GB", "H100-NVL-94GB"),
        ("h100_96gb", "H100-SXM5-96GB"),
        ("H800", "H800-SXM5-80GB"),
        ("NVIDIA H200", "H200-SXM-141GB"),
        ("B200", "B200-SXM-180GB"),
        ("B200-192GB", "B200-SXM-180GB"),
        ("GB200", "GB200-NVL72-186GB"),
        ("GB200 NVL72", "GB200-NVL72-186GB"),
        ("RTX4090", "RTX-4090-24GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090-24GB"),
        ("4090", "RTX-4090-24GB"),
        ("AMD Instinct MI300X", "MI300X-192GB"),
        ("Ascend 910B", "Ascend-910B3-64GB"),
        ("ascend910b2", "Ascend-910B2-64GB"),
        ("Ascend 910C", "Ascend-910C-die-64GB"),
        ("Trainium2", "Trainium2-96GB"),
        ("AWS Trn2", "Trainium2-96GB"),
        ("TPU v5p", "TPU-v5p-95GB"),
        ("Google Cloud TPU v4", "TPU-v4-32GB"),
        ("Ironwood", "TPU-v7-192GB"),
        ("Habana Gaudi2", "Gaudi-2-96GB"),
        ("MI250X", "MI250X-GCD-64GB"),
        ("RTX PRO 6000", "RTX-PRO-6000-96GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server-96GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-48GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("Tesla T4", "T4-16GB"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA B300 SXM6 AC", "B300-SXM-288GB"),
        ("H100-96GB(HBM2e,500W)", "H100-SXM5-96GB"),
        ("H100 (96 GB)", "H100-SXM5-96GB"),
        ("A100-80GB @330W", "A100-SXM4-80GB"),
        ("RTX 3090 24GB x16", "RTX-3090-24GB"),
        ("M1 7\u2011Core GPU 8GB", "M1-7-core-8GB"),
    ],
)
def test_names_as_people_and_drivers_write_them(text: str, name: str) -> None:
    assert find_device(text).name == name


@given(device=st.sampled_from(DEVICES), data=st.data())
def test_a_name_finds_its_device_in_any_case_and_with_any_separator(
    device: Device, data: st.DataObject
) -> None:
    def changed(character: str) -> str:
        if character in " -_":
            return data.draw(st.sampled_from(["", " ", "-", "_", "  "]))
        return data.draw(st.sampled_from([character.lower(), character.upper()]))

    assert find_device("".join(changed(character) for character in device.name)) is device


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_alias_with_its_memory_finds_a_device_with_that_memory(device: Device) -> None:
    for alias in device.aliases:
        found = find_device(f"{alias}-{round(device.memory_bytes / 1e9)}GB")
        assert found.memory_bytes == device.memory_bytes
        assert device is found or alias in found.aliases


@pytest.mark.parametrize("text", ["H100 (60GB)", "A100-60GB", "MI250X-128GB", "RTX 6000"])
def test_a_memory_that_no_part_has_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        find_device(text)


NAMELESS = {"24GB-class", "?", "not stated"}
"""Texts of the measured runs that name no device."""


def measured_devices() -> set[str]:
    """Every device that a measured run names, as its source writes it."""
    if not MEASURED.is_dir():
        pytest.skip("the measured runs are not beside this checkout")
    found: set[str] = set()
    for path in [*MEASURED.rglob("*.csv"), *MEASURED.rglob("*.csv.gz")]:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            named = {"gpu", "device", "system"}.intersection(rows.fieldnames or ())
            found.update(row[column] for row in rows for column in named if row[column])
    return found


def test_every_device_of_the_measured_runs_is_known() -> None:
    for text in sorted(measured_devices() - NAMELESS):
        assert find_device(text).name


def test_no_measured_product_is_faster_than_the_peak() -> None:
    path = MEASURED / "kernels" / "gemm.csv.gz"
    if not path.is_file():
        pytest.skip("the measured runs are not beside this checkout")
    formats = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}
    fastest: dict[tuple[str, str], float] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["device"], formats[row["gemm_dtype"]]
            fastest[key] = max(fastest.get(key, 0.0), float(row["tflops"]) * 1e12)
    for (device, number_format), rate in fastest.items():
        assert rate < find_device(device).peak_flops(number_format)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVLink 4", "NVLink 4"),
        ("nvlink5", "NVLink 5"),
        ("NVL72", "NVLink 5"),
        ("NDR", "InfiniBand NDR"),
        ("InfiniBand-XDR", "InfiniBand XDR"),
        ("RoCE 400", "RoCE 400"),
        ("PCIe 5", "PCIe 5.0 x16"),
        ("EFA (p4d)", "EFA (p4d)"),
        ("xGMI", "Infinity Fabric"),
        ("UALink", "UALink 200G"),
        ("100 GbE", "100 GbE"),
    ],
)
def test_links_as_people_write_them(text: str, name: str) -> None:
    assert find_link(text).name == name


def test_link_names_are_unique() -> None:
    names = [name for link in LINKS for name in (link.name, *link.aliases)]
    assert len(set(names)) == len(names)
    assert all(find_link(name).source for name in names)


def test_an_unknown_link_names_its_neighbours() -> None:
    with pytest.raises(InputError) as caught:
        find_link("NVLink 9")
    assert caught.value.message.startswith("network: NVLink 9 is not a link that Tonnage knows")
    assert "NVLink 5" in caught.value.accepted
    with pytest.raises(InputError, match="carrier pigeon"):
        find_link("carrier pigeon")


def test_an_unknown_device_names_its_neighbours() -> None:
    with pytest.raises(InputError) as caught:
        find_device("A100-60GB", field="--gpus")
    assert caught.value.message.startswith("--gpus: A100-60GB is not a device that Tonnage knows")
    assert "A100-SXM4-80GB" in caught.value.accepted
    assert "A100-SXM4-40GB" in caught.value.accepted


def test_where_none_is_near_all_are_named() -> None:
    with pytest.raises(InputError) as caught:
        find_device("abacus")
    assert caught.value.accepted == ", ".join(device.name for device in DEVICES)


@settings(deadline=None)  # the first error imports difflib
@given(text=st.text())
def test_any_text_finds_a_device_or_is_refused(text: str) -> None:
    with suppress(InputError):
        assert find_device(text) in DEVICES


@pytest.mark.parametrize("character", ["9", "a", " ", "-", "9g"])
def test_what_is_absurdly_long_is_refused_at_once(character: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InputError):
        find_device(character * 10**6)
    assert time.perf_counter() - started < 0.5
