"""A dry run of somebody's own step."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.cli.running import run
from tonnage.errors import InputError
from tonnage.pytorch import dry_run_file

STEP = """
import torch

def step():
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    def one():
        optimizer.zero_grad()
        model(torch.empty(2, 8)).square().mean().backward()
        optimizer.step()
    return one

def parts():
    return torch.nn.Linear(8, 4), torch.empty(2, 8), lambda output: output.square().mean()

def nothing():
    return 3

def needs(size, *, depth):
    return parts()

def raises():
    raise ValueError("nothing to train")

def leaves():
    raise SystemExit(0)

def hangs():
    while True:
        pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(STEP, encoding="utf-8")
    return path


def test_a_step(file: Path) -> None:
    trace = dry_run_file(f"{file}:step").trace
    weights = 4 * (8 * 4 + 4)
    assert trace.most_of("parameter") == trace.most_of("optimizer state") == weights


def test_a_model_a_batch_and_a_loss(file: Path) -> None:
    trace = dry_run_file(f"{file}:parts").trace
    assert trace.most_of("input") == 2 * 8 * 4
    assert trace.total_flops(["forward"]) == 2 * (2 * 2 * 8 * 4)


@pytest.mark.parametrize("name", ["missing", "nothing", "STEP"])
def test_what_is_no_step_is_an_error(file: Path, name: str) -> None:
    with pytest.raises(InputError):
        dry_run_file(f"{file}:{name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("needs", "missing a required argument: 'size'"),
        ("raises", "raised ValueError: nothing to train"),
        ("leaves", "raised SystemExit: 0"),
        ("hangs", "has not finished after 0.2 s"),
    ],
)
def test_code_that_goes_wrong_is_told_as_such(file: Path, name: str, said: str) -> None:
    done = run("dryrun", f"{file}:{name}", "--time-limit", "0.2")
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_a_file_that_cannot_be_read_by_python(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def step(:\n", encoding="utf-8")
    with pytest.raises(InputError, match="raised SyntaxError"):
        dry_run_file(f"{tmp_path / 'broken.py'}:step")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_length_of_time(file: Path, seconds: str) -> None:
    assert run("dryrun", f"{file}:parts", "--time-limit", seconds).code == 2


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no function of a file"):
        dry_run_file("absent.py:step")


def test_on_the_command_line(file: Path) -> None:
    done = run("dryrun", f"{file}:step", "--json")
    assert done.code == 0
    assert done.json()["peak"]["bytes"] > 0
    assert "peak" in run("dryrun", f"{file}:step").out
