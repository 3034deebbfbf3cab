from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.cluster import DEVICES, Device, find_device
from tonnage.errors import InputError


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
