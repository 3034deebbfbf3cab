"""The sweep on this machine's processor, alone and under torchrun."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch extra")

from tests.cli.running import run  # noqa: E402
from tonnage.cluster import load_device_file  # noqa: E402
from tonnage.errors import InputError, NotModelledError  # noqa: E402
from tonnage.pytorch.here import torch_device  # noqa: E402
from tonnage.pytorch.sweep import Sweep, product_shapes  # noqa: E402

CPU = torch.device("cpu")


class Ticks:
    """A clock that runs each call once and says that every one takes as long."""

    def __init__(self, seconds: float) -> None:
        self.calls = 0
        self._seconds = seconds

    def seconds(self, call: Callable[[], object]) -> float:
        if self.calls < 60:  # the shapes grow: the large ones are only counted
            call()
        self.calls += 1
        return self._seconds


def test_the_sweep_leaves_out_what_would_take_too_long() -> None:
    clock = Ticks(1e-3)
    sweep = Sweep(device=CPU, clock=clock, slowest=2e-3, memory=2**24)
    rows = list(sweep.products("fp32"))
    work = [row.rows * row.columns * row.depth for row in rows]
    assert work == sorted(work)
    assert len(rows) < len(product_shapes())
    # Once a call of so much work takes a millisecond, twice the work is the most that is tried.
    assert all(after <= 2 * max(work[: i + 2]) for i, after in enumerate(work[2:]))


def test_what_cannot_be_measured_is_refused_by_name() -> None:
    sweep = Sweep(device=CPU, clock=Ticks(1.0))
    with pytest.raises(NotModelledError, match="dtypes: fp8_e4m3 is a format whose products"):
        sweep.measure(["fp8_e4m3"])
    with pytest.raises(InputError, match="on: abacus is not a device that PyTorch has here"):
        torch_device("abacus")


def test_the_verb_writes_a_file_that_an_estimate_takes(tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    result = run("calibrate", "--on", "cpu", "--slowest", "1ms", "--out", str(path), "--json")
    assert result.code == 0, result.err
    found = result.json()
    device = load_device_file(path)
    assert device.measured == found["measured"]
    assert device.peak["fp32"] > 0
    for name, value in device.measured.items():
        assert 0 < value < math.inf, name
    assert set(found["fits"]) == {"traffic", "host", "fp32 products", "fp32 attention"}
    constants = [c for fit in found["fits"].values() for c in fit["constants"]]
    assert all((c["relative_error"] is not None) == c["determined"] for c in constants)
    answer = run(
        *("estimate", "gpt2", "--gpus", "1", "--device-file", str(path)),
        *("--precision", "fp32", "--seq", "128", "--json"),
    )
    assert answer.code in {0, 3}, answer.err
    assert answer.json()["step"]["seconds"] > 0


def test_collectives_are_measured_under_torchrun(tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    words = ["--nproc-per-node", "2", "-m", "tonnage", "calibrate", "--on", "cpu"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", *words),
            *("--slowest", "1ms", "--out", str(path), "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)  # one rank tells
    assert found["fits"]["collectives"]["measurements"] > 4
    link = load_device_file(path).scale_up
    assert link.measured == found["scale_up"]
    assert link.bandwidth > 0
