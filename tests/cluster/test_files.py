from __future__ import annotations

import dataclasses
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tonnage.cluster import (
    DEVICES,
    Cluster,
    Device,
    device_toml,
    find_device,
    find_link,
    host_of,
    load_cluster_file,
    load_device_file,
    override_link,
    usual_host,
)
from tonnage.errors import InputError

DEVICE = """
name = "Abacus 1"
memory = "48GB"
usable_memory = "44GiB"
bandwidth = "1.2TB/s"
tdp_watts = 300
architecture = "beads"
scale_up = "PCIe 5"
network = {bandwidth = "200Gb/s", latency = "5us"}

[peak]
bf16 = "180 TFLOP/s"
fp8 = 360e12
"""


def written(folder: Path, text: str, name: str = "cluster.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_cluster_is_the_usual_one_where_the_file_says_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, 'device = "H100"\ngpus = 64')
    assert load_cluster_file(path) == Cluster.of(find_device("H100"), 64)


def test_every_part_of_a_cluster_can_be_changed(tmp_path: Path) -> None:
    cluster = load_cluster_file(
        written(
            tmp_path,
            """
            device = "GB200"
            gpus = 144
            gpus_per_node = 8
            scale_up_domain = 36
            scale_up = "NVLink 4"
            network = {name = "mine", bandwidth = "50GB/s", latency = "5us"}
            """,
        )
    )
    assert (cluster.gpus, cluster.gpus_per_node, cluster.scale_up_domain) == (144, 8, 36)
    assert cluster.scale_up == find_link("NVLink 4")
    assert (cluster.network.name, cluster.network.bandwidth) == ("mine", 50e9)
    assert cluster.network.latency == 5e-6


def test_one_figure_of_a_link_can_be_changed(tmp_path: Path) -> None:
    text = 'device = "H100"\ngpus = 16\nnetwork_bandwidth = "200Gb/s"\nscale_up_latency = "9us"'
    cluster = load_cluster_file(written(tmp_path, text))
    usual = Cluster.of(find_device("H100"), 16)
    assert cluster.network.bandwidth == 25e9
    assert cluster.network.latency == usual.network.latency
    assert cluster.scale_up.bandwidth == usual.scale_up.bandwidth
    assert cluster.scale_up.latency == 9e-6
    assert "changed" in cluster.network.source


def test_the_host_is_the_usual_one_or_the_file_s(tmp_path: Path) -> None:
    plain = load_cluster_file(written(tmp_path, 'device = "A100"\ngpus = 8'))
    assert host_of(plain) == usual_host(find_device("A100"))
    text = """
        device = "A100"
        gpus = 8
        host = "PCIe 5"
        host_bandwidth = "50GB/s"
        host_sharing = 1
        host_memory_bandwidth = "300GB/s"
        host_devices = 4
        """
    host = host_of(load_cluster_file(written(tmp_path, text)))
    assert (host.link.bandwidth, host.sharing, host.memory, host.devices) == (50e9, 1, 300e9, 4)
    assert "changed by the person who asks" in host.source
    device = DEVICE.replace("scale_up =", 'host_memory_bandwidth = "77GB/s"\nscale_up =')
    assert usual_host(load_device_file(written(tmp_path, device))).memory == 77e9


@pytest.mark.parametrize("key", ["host_memory_bandwidth", "host_bandwidth"])
def test_a_host_that_carries_nothing_is_refused(tmp_path: Path, key: str) -> None:
    text = f'device = "A100"\ngpus = 8\n{key} = "0GB/s"'
    with pytest.raises(InputError, match=key):
        load_cluster_file(written(tmp_path, text))


def test_nodes_of_the_file_s_size_and_not_of_the_device_s(tmp_path: Path) -> None:
    path = written(tmp_path, 'device = "H100"\ngpus = 20\ngpus_per_node = 4')
    cluster = load_cluster_file(path)
    assert (cluster.nodes, cluster.scale_up_domain) == (5, 4)
    rack = written(tmp_path, 'device = "GB200"\ngpus = 72\ngpus_per_node = 8')
    assert load_cluster_file(rack).scale_up_domain == 72


def test_a_device_that_is_not_in_the_catalog(tmp_path: Path) -> None:
    device = load_device_file(written(tmp_path, DEVICE, "abacus.toml"))
    assert (device.name, device.memory_bytes) == ("Abacus 1", 48_000_000_000)
    assert device.usable_bytes == 44 * 2**30
    assert device.bandwidth == 1.2e12
    assert device.peak_flops("bf16") == 180e12
    assert device.peak_flops("mxfp8") == 360e12
    assert device.published("tdp_watts") == 300
    assert device.network.bandwidth == 25e9
    assert device.source == "the device file abacus.toml"
    with pytest.raises(InputError, match="fp32 has no published peak on Abacus 1"):
        device.peak_flops("fp32")


def test_a_cluster_file_can_name_a_device_file_beside_it(tmp_path: Path) -> None:
    written(tmp_path, DEVICE, "abacus.toml")
    cluster = load_cluster_file(written(tmp_path, 'device = "abacus.toml"\ngpus = 16'))
    assert (cluster.device.name, cluster.nodes) == ("Abacus 1", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('device = "H100"', "gpus: '' is missing (accepted: every cluster file has it)"),
        (
            'device = "H100"\ngpus = 8\nspeed = 3',
            "speed: 3 is not a key of a cluster file (accepted: device, gpus, ",
        ),
        (
            'device = "H100"\ngpus = 8\nnetwork = {bandwidth = "1GB/s", latency = "5us", x = 1}',
            "network.x: 1 is not a key of a cluster file "
            "(accepted: bandwidth, latency, name, measured)",
        ),
        (
            'device = "H100"\ngpus = 8\ngpus_per_node = "eight"',
            "gpus_per_node: eight makes no sense in a cluster file (accepted: integer)",
        ),
        ('device = "H100"\ngpus = 12', "gpus: 12 does not fill whole nodes of 8 devices"),
        ('device = "H100"\ngpus = -8', "gpus: -8 makes no sense in a cluster file (accepted: "),
        ('device = "abacus"\ngpus = 8', "device: abacus is not a device that Tonnage knows"),
        ('device = "H100"\ngpus = 8\nnetwork = "string"', "network: string is not a link"),
        (
            'device = "H100"\ngpus = 8\nnetwork_bandwidth = "50GB"',
            "network_bandwidth: 50GB is not a rate (accepted: a rate, such as 50GB/s or 400Gb/s)",
        ),
        ('device = "H100"\ngpus = 8\nnetwork_latency = "5"', "network_latency: 5 has no unit"),
        ('device = "H100"\ngpus = [8]', "gpus: [8] makes no sense in a cluster file"),
        ('device = "H100"\ngpus = 8\nnetwork = 3', "network: 3 makes no sense in a cluster file"),
        ("device = ", "is not TOML: "),
        ('device = "missing.toml"\ngpus = 8', "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_cluster_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_cluster_file(written(tmp_path, text))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('memory = "48GB"', 'memory = "48G"', "memory: 48G could mean GB (decimal) or GiB"),
        ('memory = "48GB"', "", "memory: '' is missing"),
        ("fp8 =", "fp9 =", "peak.fp9: 360000000000000.0 is not a format that has a peak"),
        ("180 TFLOP/s", "fast", "peak.bf16: fast is not a number"),
        ("tdp_watts = 300", "tdp_watts = 0", "tdp_watts: 0 makes no sense in a device file"),
        ('"1.2TB/s"', '"0GB/s"', "bandwidth: 0GB is zero"),
        ('"Abacus 1"', '""', "name: '' makes no sense in a device file"),
        ('"Abacus 1"', '"a\\u001b[31mb"', "name: 'a\\x1b[31mb' holds a control character"),
        ('"beads"', '"a\\nb"', "architecture: 'a\\nb' holds a control character"),
        ('latency = "5us"', 'latency = "5us", name = "\\r"', "network.name: '\\r' holds a control"),
    ],
)
def test_what_is_no_device_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in DEVICE
    with pytest.raises(InputError) as caught:
        load_device_file(written(tmp_path, DEVICE.replace(old, new)))
    assert message in caught.value.message


CONSTANTS = """
[measured]
elementwise_memory = 0.8

[measured.bf16]
product_share = 0.6
attention_forward = 0.5
"""


def test_a_device_file_carries_constants(tmp_path: Path) -> None:
    device = load_device_file(written(tmp_path, DEVICE + CONSTANTS))
    assert device.measured == {
        "elementwise_memory": 0.8,
        "bf16.product_share": 0.6,
        "bf16.attention_forward": 0.5,
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("= 0.8", "= 1.8", "measured.elementwise_memory: 1.8 is out of range"),
        ("= 0.8", "= nan", "measured.elementwise_memory: nan is out of range"),
        ("= 0.8", '= "fast"', "makes no sense in a device file"),
        ("elementwise_memory", "speed", "measured.speed: 0.8 is not a constant"),
        ("product_share", "speed", "measured.bf16.speed: 0.6 is not a constant"),
        ("[measured.bf16]", "[measured.fp32]", "measured.fp32: fp32 is a format that the file"),
        ("[measured.bf16]", "[measured.bf16.x]", "makes no sense in a device file"),
    ],
)
def test_what_is_no_constant(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CONSTANTS
    with pytest.raises(InputError) as caught:
        load_device_file(written(tmp_path, DEVICE + CONSTANTS.replace(old, new)))
    assert message in caught.value.message


def without_sources(device: Device) -> Device:
    """Where figures come from is told once for a whole file, and other names not at all."""
    host = device.host
    if host is not None:
        link = dataclasses.replace(host.link, source="", aliases=())
        host = dataclasses.replace(host, link=link, source="")
    return dataclasses.replace(
        device,
        bandwidth=round(device.bandwidth),
        source="",
        sources={},
        aliases=(),
        scale_up=dataclasses.replace(device.scale_up, source="", aliases=()),
        network=dataclasses.replace(device.network, source="", aliases=()),
        host=host,
    )


@pytest.mark.parametrize(
    "entry", [device for device in DEVICES if device.peak], ids=lambda device: device.name
)
def test_a_device_is_written_as_it_is_read(tmp_path: Path, entry: Device) -> None:
    known = next(iter(entry.peak))
    device = dataclasses.replace(
        entry,
        scale_up=dataclasses.replace(entry.scale_up, measured={"start": 1e-05, "share": 0.5}),
        measured={"elementwise_memory": 0.75, f"{known}.product_start": 2.5e-06},
    )
    back = load_device_file(written(tmp_path, device_toml(device, ["a note\nof two lines"])))
    assert without_sources(back) == without_sources(device)


def test_what_is_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    large = written(tmp_path, "#" * 2**20 + "#")
    for load in (load_cluster_file, load_device_file):
        with pytest.raises(InputError, match="is larger than 16 KiB"):
            load(large)
        with pytest.raises(InputError, match="cannot be read: Is a directory"):
            load(tmp_path)
        with pytest.raises(InputError, match="cannot be read"):
            load(f"{tmp_path}/\0")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not TOML"):
        load_device_file(binary)


KEYS = st.sampled_from(["device", "gpus", "gpus_per_node", "network", "scale_up_domain", "x"])
VALUES = st.sampled_from(
    ["0", "-1", "1e999", "nan", "true", "[]", "[[1]]", "{}", '""', '"H100"', "1979-05-27"]
) | st.integers().map(str)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.dictionaries(KEYS, VALUES))
def test_any_file_is_read_or_refused(tmp_path: Path, lines: dict[str, str]) -> None:
    path = written(tmp_path, "\n".join(f"{key} = {value}" for key, value in lines.items()))
    for load in (load_cluster_file, load_device_file):
        with suppress(InputError):
            assert load(path)


def test_a_link_is_changed_as_flags_say() -> None:
    link = find_link("NDR")
    assert override_link(link, role="network") is link
    assert override_link(link, role="network", bandwidth="1TB/s").bandwidth == 1e12
    with pytest.raises(InputError, match="network_latency: fast is not a number"):
        override_link(link, role="network", latency="fast")


def test_only_a_file_needs_pydantic() -> None:
    script = "import sys, tonnage.cluster; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
