from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.cluster import (
    LARGEST_CLUSTER,
    Cluster,
    find_device,
    parse_cluster,
    parse_clusters,
)
from tonnage.errors import InputError

H100 = find_device("H100")


@pytest.mark.parametrize(
    ("text", "gpus", "name", "nodes"),
    [
        ("8xH100", 8, "H100-SXM5-80GB", 1),
        ("8×H100", 8, "H100-SXM5-80GB", 1),
        ("8*H100", 8, "H100-SXM5-80GB", 1),
        ("8XH100", 8, "H100-SXM5-80GB", 1),
        ("64 x A100-40GB", 64, "A100-SXM4-40GB", 8),
        ("H100", 1, "H100-SXM5-80GB", 1),
        ("3xH100", 3, "H100-SXM5-80GB", 1),
        (" 2048xH800 ", 2048, "H800-SXM5-80GB", 256),
        ("72xGB200", 72, "GB200-NVL72-186GB", 18),
        ("8x4090", 8, "RTX-4090-24GB", 1),
        ("RTX4090", 1, "RTX-4090-24GB", 1),
        (f"{LARGEST_CLUSTER}xH100", LARGEST_CLUSTER, "H100-SXM5-80GB", LARGEST_CLUSTER // 8),
    ],
)
def test_a_cluster_as_people_write_it(text: str, gpus: int, name: str, nodes: int) -> None:
    cluster = parse_cluster(text)
    assert (cluster.gpus, cluster.device.name, cluster.nodes) == (gpus, name, nodes)
    assert parse_clusters(text) == (cluster,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--gpus: '' is empty (accepted: a number and a device, such as 8xH100)"),
        ("8", "--gpus: 8 names no device (accepted: a number and a device, such as 8xH100)"),
        ("0xH100", "--gpus: 0 is not a positive whole number (accepted: 1 or more)"),
        (
            "12xH100",
            "--gpus: 12 does not fill whole nodes of 8 devices (accepted: 8 or 16)",
        ),
        (
            "6xGB200",
            "--gpus: 6 does not fill whole nodes of 4 devices (accepted: 4 or 8)",
        ),
        (
            "10000008xH100",
            "--gpus: 10000008 is more devices than any cluster has (accepted: 1 to 10000000)",
        ),
    ],
)
def test_what_is_no_cluster(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cluster(text)
    assert caught.value.message == message


def gpus_and_names(text: str) -> list[tuple[int, str]]:
    return [(cluster.gpus, cluster.device.name[:4]) for cluster in parse_clusters(text)]


def test_a_bare_count_takes_the_next_device() -> None:
    assert gpus_and_names("8,64xH100") == [(8, "H100"), (64, "H100")]
    assert gpus_and_names("8, 16 x A100, H100") == [(8, "A100"), (16, "A100"), (1, "H100")]


def test_two_dots_double() -> None:
    assert [gpus for gpus, _ in gpus_and_names("8..64xH100")] == [8, 16, 32, 64]
    assert [gpus for gpus, _ in gpus_and_names("1 .. 2, 8..16xH100")] == [1, 2, 8, 16]
    assert [gpus for gpus, _ in gpus_and_names("8..8xH100")] == [8]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("1..32xH100", [1, 2, 4, 8, 16, 24, 32]),
        ("8..40xH100", [8, 16, 24, 32, 40]),
        ("3..16xH100", [3, 4, 8, 16]),
        ("2..6xH100", [2, 4, 6]),
        ("8xH100", [8]),
        ("8..16xH100,24..32xH100", [8, 16, 24, 32]),
    ],
)
def test_a_range_can_be_every_host(text: str, counts: list[int]) -> None:
    assert [each.gpus for each in parse_clusters(text, every=True)] == counts


def test_hosts_of_another_size_are_gone_through_as_they_are() -> None:
    found = parse_clusters("1..12xH100", every=True, gpus_per_node=4)
    assert [each.gpus for each in found] == [1, 2, 4, 8, 12]


@pytest.mark.parametrize("text", ["0..8xH100", "16..8xH100", "8..1000000xH100", "8..20xH100"])
def test_what_is_no_range_of_hosts(text: str) -> None:
    with pytest.raises(InputError, match=r"^--gpus"):
        parse_clusters(text, every=True)


def test_a_list_over_a_device_file_is_one_of_counts() -> None:
    own = replace(H100, name="own", gpus_per_node=4)
    found = parse_clusters("4..16, 64", device=own)
    assert [(each.gpus, each.device, each.nodes) for each in found] == [
        (4, own, 1),
        (8, own, 2),
        (16, own, 4),
        (64, own, 16),
    ]
    with pytest.raises(InputError, match="names a device, which a device file does already"):
        parse_clusters("8,64xH100", device=own)


def test_nodes_of_another_size_hold_for_a_whole_list() -> None:
    assert [each.nodes for each in parse_clusters("8,16xH100", gpus_per_node=4)] == [2, 4]


@pytest.mark.parametrize("text", ["8,64xH100", "8..64xH100", "8xH100,8xA100"])
def test_where_one_cluster_is_asked_for_a_list_is_told_so(text: str) -> None:
    with pytest.raises(InputError, match="is a list of clusters") as caught:
        parse_cluster(text)
    assert "tonnage scale" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem", "accepted"),
    [
        ("8..100xH100", "does not reach 100 by doubling 8", "8..64 or 8..128"),
        ("64..8xH100", "does not reach 8 by doubling 64", "64..64 or 64..128"),
        ("0..8xH100", "does not reach 8 by doubling 0", "a count from 1"),
        ("8xH100,64", "names no device for 64", "such as 8xH100, or 8,64xH100, or 8..64xH100"),
        ("8,,8xH100", "has an empty part", "such as 8xH100, or 8,64xH100, or 8..64xH100"),
        (
            "8xH100," * 100,
            "has more than 64 parts",
            "such as 8xH100, or 8,64xH100, or 8..64xH100",
        ),
    ],
)
def test_what_is_no_list_of_clusters(text: str, problem: str, accepted: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_clusters(text)
    assert caught.value.problem == problem
    assert caught.value.accepted == accepted


@given(nodes=st.integers(1, 1000), doublings=st.integers(0, 10))
def test_doubling_gives_every_power_between(nodes: int, doublings: int) -> None:
    first = 8 * nodes
    clusters = parse_clusters(f"{first}..{first << doublings}xH100")
    assert [cluster.gpus for cluster in clusters] == [first << i for i in range(doublings + 1)]


@settings(deadline=None)  # the first error imports difflib
@given(text=st.text() | st.text(alphabet="0123456789xH.,×A ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        assert parse_clusters(text)


@pytest.mark.parametrize(
    "text", ["9" * 10**6, "9" * 10**6 + "xH100", "1.." + "9" * 4000 + "xH100", "8," * 10**6]
)
def test_what_is_absurdly_long_is_refused_at_once(text: str) -> None:
    started = time.perf_counter()
    for parse in (parse_cluster, parse_clusters):
        with pytest.raises(InputError) as caught:
            parse(text)
        assert len(caught.value.message) < 5000
    assert time.perf_counter() - started < 0.5


def test_parts_can_be_overridden_and_are_checked_again() -> None:
    cluster = Cluster.of(H100, 64)
    slower = cluster.override(network=replace(cluster.network, bandwidth=25e9))
    assert slower.network.bandwidth == 25e9
    assert slower.scale_up == cluster.scale_up
    assert cluster.override(scale_up_domain=32).scale_up_domain == 32
    with pytest.raises(InputError, match="gpus: 64 does not fill whole nodes of 5"):
        cluster.override(gpus_per_node=5)
    with pytest.raises(InputError, match="scale_up_domain: 0 is not a positive whole number"):
        cluster.override(scale_up_domain=0)


def test_the_domain_moves_with_the_node_where_they_were_the_same() -> None:
    assert Cluster.of(H100, 64).override(gpus_per_node=4).scale_up_domain == 4
    assert Cluster.of(find_device("GB200"), 72).override(gpus_per_node=8).scale_up_domain == 72


def test_nodes_of_another_size_are_taken_into_account_before_the_count_is_checked() -> None:
    cluster = parse_cluster("20xH100", gpus_per_node=4)
    assert (cluster.nodes, cluster.scale_up_domain) == (5, 4)
    with pytest.raises(InputError, match="gpus_per_node: 0 is not a positive whole number"):
        parse_cluster("20xH100", gpus_per_node=0)


def test_a_device_from_elsewhere_takes_a_bare_count() -> None:
    device = replace(H100, name="Abacus")
    assert parse_cluster("16", device=device) == Cluster.of(device, 16)
    with pytest.raises(InputError, match="names a device, which a device file does already"):
        parse_cluster("16xH100", device=device)
