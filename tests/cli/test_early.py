"""What can be refused early is: before PyTorch is imported, before anything is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("calibrate", "--slowest", "0s"), "--slowest: 0s is zero"),
        (("calibrate", "--dtypes", "fp99"), "--dtypes: fp99 is not a number format"),
        (("calibrate", "--out", "/nowhere/device.toml"), "--out: /nowhere/device.toml cannot be"),
        (("dryrun", "gpt2", "--time-limit", "nan"), "--time-limit: nan is no length of time"),
        (("dryrun", "gpt2", "--time-limit", "0"), "--time-limit: 0.0 is no length of time"),
        (("dryrun", "gpt2", "--gpus", "0xH100"), "--gpus: 0 is not a positive whole number"),
        (("score", "rows.csv", "--rows", "/nowhere/out.csv"), "--rows: /nowhere/out.csv cannot be"),
        (("score", "rows.csv", "--html", "/nowhere/out.html"), "--html: /nowhere/out.html cannot"),
        (("batch", "gpt2", "--gpus", "8xH100", "--html", "x.txt"), "is not the name of a page"),
    ],
)
def test_a_typing_error_costs_no_wait(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tonnage.pytorch", "tonnage.pytorch.calibrate"):
        monkeypatch.setitem(sys.modules, module, None)
    result = run(*words)
    assert result.code == 2
    assert said in result.err


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    result = run("score", "rows.csv", "--html", str(tmp_path / "page.html"))
    assert result.code == 2
    assert "it is a folder" in result.err


def test_rows_that_are_none_are_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("layers,hidden,heads,vocab,seq_len,gpu\n", encoding="utf-8")
    result = run("score", str(file))
    assert result.code == 2
    assert "holds no row" in result.err


def test_no_price_makes_an_infinite_cost() -> None:
    words = ("estimate", "gpt2", "--gpus", "8xH100", "--tokens", "15T", "--json", "--price")
    assert "1e308 is over 1e15" in run(*words, "1e308").json()["error"]["message"]
    assert run(*words, "1e15").code == 0
