from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.cluster import DEVICES, Device, device_toml, find_device
from tonnage.report.hardware_page import page

DEVICE = """
name = "Abacus 1"
memory = "48GB"
bandwidth = "1TB/s"
[peak]
bf16 = "250 TFLOP/s"
"""


def test_the_table_has_every_device_and_its_ridge() -> None:
    lines = run("hardware").out.splitlines()
    for device in DEVICES:
        assert any(line.split()[:1] == [device.name] for line in lines)
    (h100,) = (line for line in lines if "H100-SXM5-80GB" in line)
    assert h100.split()[1:7] == ["80", "3350", "989.4", "295", "1979", "591"]
    assert h100.split()[7:] == ["-", "-", "66.9", "20"]


def test_json_has_ridges_in_flop_a_byte() -> None:
    found = {device["name"]: device for device in run("hardware", "--json").json()["devices"]}
    assert len(found) == len(DEVICES)
    h100 = found["H100-SXM5-80GB"]
    assert h100["ridge"]["bf16"] == pytest.approx(295, abs=0.5)
    assert h100["tdp_watts"] == 700
    assert found["TPU-v5p-95GB"]["tdp_watts"] is None


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_one_device_with_the_source_of_every_figure(device: Device) -> None:
    name = device.name
    result = run("hardware", name)
    assert result.code == 0
    assert name in result.out
    assert "…" not in result.out
    answer = run("hardware", name, "--json").json()
    assert answer["schema_version"] == 1
    assert answer["device"]["name"] == name
    assert all(answer["device"]["sources"].values())


def test_a_device_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "abacus.toml"
    path.write_text(DEVICE, encoding="utf-8")
    found = run("hardware", "--device-file", str(path), "--json").json()["device"]
    assert found["ridge"] == {"bf16": 250.0}
    assert "Abacus 1" in run("hardware", "--device-file", str(path)).out


def test_what_is_no_device_is_refused(tmp_path: Path) -> None:
    result = run("hardware", "abacuss", "--json")
    assert result.code == 2
    assert result.json()["error"]["field"] == "NAME"
    both = run("hardware", "H100", "--device-file", str(tmp_path / "x.toml"))
    assert both.code == 2
    assert "already decided by the device file" in both.err


def test_the_page_is_what_the_catalog_says() -> None:
    """Rewrite with ``python -m tonnage.report.hardware_page > docs/reference/hardware.md``."""
    path = Path(__file__).parents[2] / "docs" / "reference" / "hardware.md"
    assert path.read_text(encoding="utf-8") == page()


def test_what_was_measured_on_a_device_is_shown(tmp_path: Path) -> None:
    link = dataclasses.replace(find_device("H100").scale_up, measured={"share": 0.5, "hop": 1e-6})
    network = dataclasses.replace(find_device("H100").network, measured={"hop": 9e-6})
    device = dataclasses.replace(
        find_device("H100"),
        scale_up=link,
        network=network,
        measured={"elementwise_memory": 0.75, "bf16.product_feed": 9e10},
    )
    path = tmp_path / "own.toml"
    path.write_text(device_toml(device), encoding="utf-8")
    text = run("hardware", "--device-file", str(path)).out
    for word in ("Measured", "bf16.product_feed", "90.0 GB/s", "network.hop", "9.00 µs"):
        assert word in text
    found = run("hardware", "--device-file", str(path), "--json").json()["device"]["measured"]
    assert found == {"elementwise_memory": 0.75, "bf16.product_feed": 9e10}
