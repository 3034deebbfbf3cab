from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run

SIXTEEN = ("ranks", "--gpus", "16xH100", "--tp", "4", "--pp", "2")


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    result = run(*SIXTEEN, "--json")
    assert (result.code, result.err) == (0, "")
    found: dict[str, Any] = result.json()
    return found


def test_the_launch_is_torchrun_s(answer: dict[str, Any]) -> None:
    assert (answer["world_size"], answer["nnodes"], answer["nproc_per_node"]) == (16, 2, 8)
    assert answer["master_port"] == 29500
    assert answer["command"].startswith("torchrun --nnodes 2 --nproc-per-node 8 ")


def test_every_rank_is_placed(answer: dict[str, Any]) -> None:
    placed = answer["ranks"]
    assert [rank["rank"] for rank in placed] == list(range(16))
    assert all(rank["rank"] == 8 * rank["node"] + rank["local_rank"] for rank in placed)
    ninth = placed[9]
    assert {axis: ninth["coordinates"][axis] for axis in ("pp", "dp", "cp", "tp")} == {
        "pp": 1,
        "dp": 0,
        "cp": 0,
        "tp": 1,
    }
    assert ninth["groups"]["tp"]["members"] == [8, 9, 10, 11]
    assert ninth["groups"]["pp"]["members"] == [1, 9]
    assert ninth["groups"]["pp"]["link"] == "InfiniBand NDR"


def test_which_link_each_axis_crosses(answer: dict[str, Any]) -> None:
    links = {
        axis: found["link"] and found["link"]["name"] for axis, found in answer["axes"].items()
    }
    assert (links["tp"], links["dp"], links["pp"]) == ("NVLink 4", "NVLink 4", "InfiniBand NDR")
    assert links["cp"] is None


def test_the_table_says_the_same() -> None:
    lines = [line.split() for line in run(*SIXTEEN).out.splitlines()]
    assert ["9", "1", "1", "1", "[8-11]", "0", "[9,13]", "1", "[1,9]"] in lines
    assert ["pp", "2", "InfiniBand", "NDR,", "50.0", "GB/s"] in lines


def test_one_rank_or_one_node() -> None:
    assert [rank["rank"] for rank in run(*SIXTEEN, "--rank", "9", "--json").json()["ranks"]] == [9]
    second = run(*SIXTEEN, "--node", "1", "--json").json()
    assert [rank["rank"] for rank in second["ranks"]] == list(range(8, 16))
    assert second["shown"] == {"ranks": 8, "first": 8, "of": 16}


def test_a_cluster_too_large_to_list_shows_its_first_node() -> None:
    command = ("ranks", "--gpus", "8000000xH100", "--tp", "8")
    found = run(*command, "--json")
    assert len(found.out) < 100_000
    assert found.json()["shown"] == {"ranks": 8, "first": 0, "of": 8_000_000}
    assert found.json()["ranks"][0]["groups"]["dp"]["members"] is None
    text = run(*command, "--node", "999999").out
    assert "7999999" in text
    assert len(text.splitlines()) < 30


def test_a_rack_keeps_a_wide_group_on_the_scale_up_link() -> None:
    words = ("ranks", "--gpus", "144xGB200", "--tp", "72", "--json")
    assert run(*words).json()["axes"]["tp"]["link"]["name"] == "NVLink 5"
    narrow = run(*words, "--scale-up-domain", "4").json()["axes"]["tp"]["link"]
    assert narrow["name"] == "InfiniBand NDR"


def test_links_and_nodes_can_be_changed() -> None:
    words = (
        *("ranks", "--gpus", "20xH100", "--gpus-per-node", "4", "--network", "RoCE 100"),
        *("--network-latency", "9us", "--scale-up-bandwidth", "100GB/s", "--tp", "4", "--json"),
    )
    found = run(*words).json()
    assert found["nnodes"] == 5
    network, scale_up = (found["axes"][axis]["link"] for axis in ("dp", "tp"))
    assert (network["bandwidth"], network["latency"]) == (12.5e9, 9e-6)
    assert scale_up["bandwidth"] == 100e9


def test_clusters_and_devices_from_files(tmp_path: Path) -> None:
    (tmp_path / "abacus.toml").write_text(
        'name = "Abacus"\nmemory = "8GB"\nbandwidth = "1TB/s"\npeak = {bf16 = 1e12}\n'
        "gpus_per_node = 2\n",
        encoding="utf-8",
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('device = "abacus.toml"\ngpus = 6\n', encoding="utf-8")
    found = run("ranks", "--cluster-file", str(cluster), "--json").json()
    assert (found["device"], found["nnodes"]) == ("Abacus", 3)
    device = str(tmp_path / "abacus.toml")
    same = run("ranks", "--device-file", device, "--gpus", "6", "--json").json()
    assert same == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--gpus is missing"),
        (("--gpus", "16xH100", "--tp", "3"), "--gpus: 16 is no multiple of tp * cp * pp = 3"),
        (("--gpus", "16xH100", "--tp", "0"), "--tp: 0 is not a positive whole number"),
        (("--gpus", "16xH100", "--dp", "4"), "--gpus: 16 is not the number of ranks"),
        (("--gpus", "16xH100", "--rank", "16"), "--rank: 16 is none of the 16 ranks"),
        (("--gpus", "16xH100", "--node", "2"), "--node: 2 is none of the 2 nodes"),
        (("--gpus", "16xH100", "--node", "1", "--rank", "9"), "--node: 1 is already decided"),
        (("--gpus", "16xH100", "--network", "string"), "--network: string is not a link"),
        (("--gpus", "8xH100", "--cluster-file", "x.toml"), "--gpus: 8xH100 is already decided"),
        (("--cluster-file", "missing.toml"), "--file: missing.toml cannot be read"),
    ],
)
def test_what_is_no_layout(words: tuple[str, ...], message: str) -> None:
    result = run("ranks", *words)
    assert result.code == 2
    assert message in result.err
