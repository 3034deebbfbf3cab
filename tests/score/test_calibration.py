"""Constants recovered from steps that were timed with known ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.cluster import find_device, load_device_file
from tonnage.errors import InputError
from tonnage.ledger import stage_ledgers
from tonnage.plan import resolve
from tonnage.score import Row, read_rows
from tonnage.score.calibration import calibrate_steps, with_measured
from tonnage.score.case import case
from tonnage.timing import step_time

TRUE = {"bf16.product_share": 0.5, "elementwise_memory": 0.6}
HEADER = (
    "id,layers,hidden,heads,vocab,seq_len,mbs,gbs,gpu,num_gpus,gpus_per_node,framework,precision"
)
RUN = "A100-80GB,8,8,Megatron-Core,bf16"


def seconds(row: Row, constants: Mapping[str, float]) -> float:
    asked = case(row)
    device = with_measured(asked.cluster.device, constants)
    cluster = dataclasses.replace(asked.cluster, device=device)
    resolved = resolve(asked.plan, asked.architecture, asked.cluster)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    return float(step_time(resolved.setting, ledgers, cluster).seconds)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of one device, whose steps were timed with other constants than its own."""
    folder = tmp_path_factory.mktemp("rows")
    bare = folder / "bare.csv"
    lines = [
        f"r{index},{layers},{hidden},{hidden // 128},32000,{seq},{mbs},64,{RUN}"
        for index, (layers, hidden, seq, mbs) in enumerate(
            [
                (layers, hidden, seq, mbs)
                for layers in (4, 8)
                for hidden in (1024, 4096)
                for seq, mbs in ((1024, 4), (4096, 2))
            ]
        )
    ]
    bare.write_text("\n".join([HEADER, *lines]), encoding="utf-8")
    timed = folder / "steps.csv"
    rows = read_rows(bare)
    cells = [f"{line},{seconds(row, TRUE)!r}" for line, row in zip(lines, rows, strict=True)]
    timed.write_text("\n".join([f"{HEADER},step_time_s", *cells]), encoding="utf-8")
    return timed


def test_known_constants_come_back_from_steps(steps: Path) -> None:
    answer = calibrate_steps(read_rows(steps))
    found = {each.name: each for each in answer.fit.constants}
    assert found["bf16.product_share"].determined
    assert found["bf16.product_share"].value == pytest.approx(0.5, rel=0.05)
    assert answer.fit.after < 0.02 < answer.fit.before
    assert not found["network.share"].determined  # one node: nothing crossed the network
    assert "network.share" not in answer.device.network.measured
    again = [seconds(row, answer.device.measured) for row in read_rows(steps)]
    truth = [seconds(row, TRUE) for row in read_rows(steps)]
    assert again == pytest.approx(truth, rel=0.05)


def test_rows_of_several_devices_are_refused(steps: Path) -> None:
    rows = list(read_rows(steps))
    other = dataclasses.replace(rows[0], cells={**rows[0].cells, "gpu": "H100"})
    with pytest.raises(InputError, match="are rows of several devices"):
        calibrate_steps([*rows, other])
    with pytest.raises(InputError, match="is no row with a measured step"):
        calibrate_steps([])


def test_the_verb_fits_rows_and_writes_the_device(steps: Path, tmp_path: Path) -> None:
    out = tmp_path / "own.toml"
    result = run("calibrate", "--from", str(steps), "--device", "A100-80GB", "--out", str(out))
    assert result.code == 0, result.err
    assert "bf16.product_share" in result.out
    assert "open" in result.out
    device = load_device_file(out)
    assert device.name == find_device("A100-80GB").name
    assert device.measured["bf16.product_share"] == pytest.approx(0.5, rel=0.05)
    plain, own = (
        run("estimate", "gpt2", *words, "--seq", "1024", "--json").json()["step"]["seconds"]
        for words in (("--gpus", "8xA100"), ("--gpus", "8", "--device-file", str(out)))
    )
    assert own > plain
    assert run("calibrate", "--from", str(steps), "--on", "cpu").code == 2
