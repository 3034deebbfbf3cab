"""``estimate --timeline``, ``--gantt`` and ``--html``; ``score --html``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

LLAMA = ("estimate", "llama-3.1-8b", "--gpus", "8xH100", "--seq", "4096", "--pp", "4")


def test_pictures_take_the_place_of_the_tables() -> None:
    both = run(*LLAMA, "--timeline", "--gantt")
    assert both.code == 0
    assert both.err == ""
    assert both.out.startswith("llama-3.1-8b fits")
    assert "Memory over a step" in both.out
    assert "Schedule 1f1b" in both.out
    assert "FLOPs" not in both.out
    assert "Schedule" not in run(*LLAMA, "--timeline").out
    assert "Memory over" not in run(*LLAMA, "--gantt").out


def test_json_gets_what_was_asked_for() -> None:
    plain = run(*LLAMA, "--json").json()
    line = run(*LLAMA, "--timeline", "--json").json()
    gantt = run(*LLAMA, "--gantt", "--json").json()
    assert set(line) - set(plain) == {"timeline"}
    assert set(gantt) - set(plain) == {"pipeline"}
    assert {key: line[key] for key in plain} == plain
    stages = line["timeline"]["stages"]
    peaks = [stage["peak_bytes"]["allocated"] for stage in plain["memory"]["stages"]]
    assert [stage["peak_bytes"] for stage in stages] == peaks
    assert {span["way"] for span in gantt["pipeline"]["spans"]} == {"forward", "backward"}


def test_a_run_that_does_not_fit_is_drawn_all_the_same() -> None:
    result = run("estimate", "llama-3.1-70b", "--gpus", "8xH100", "--timeline")
    assert result.code == 3
    assert "│-" in result.out or "AAAA" in result.out


def test_a_page_beside_the_tables(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    path = tmp_path / "run.html"
    result = run(*LLAMA, "--html", str(path))
    assert result.code == 0
    assert "FLOPs" in result.out
    assert "MiB" in result.err
    assert path.read_text().startswith("<!doctype html>")


def test_names_that_are_no_pages(tmp_path: Path) -> None:
    wrong = run(*LLAMA, "--html", str(tmp_path / "run.txt"))
    assert wrong.code == 2
    assert ".html" in wrong.err
    assert not (tmp_path / "run.txt").exists()
    nowhere = run(*LLAMA, "--html", str(tmp_path / "no" / "run.html"))
    assert nowhere.code == 2
    assert "cannot be written" in nowhere.err


MEASURED = """id,layers,hidden,heads,vocab,seq_len,gpu,mem_gib,counter,step_time_s,gbs
<b>one</b>,12,768,12,50257,1024,A100-80GB,6.5,allocated,0.2,1
two,12,768,12,50257,2048,A100-80GB,8.5,allocated,0.3,1
"""


def test_a_page_of_measured_runs(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    rows, page = tmp_path / "rows.csv", tmp_path / "score.html"
    rows.write_text(MEASURED)
    result = run("score", str(rows), "--html", str(page))
    assert result.code == 0
    text = page.read_text()
    for expected in ("Predicted over measured", "Memory", "Time of a step", "all rows"):
        assert expected in text
    assert "<b>one</b>" not in text
    assert run("score", str(rows), "--html", str(tmp_path / "score.csv")).code == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("--export", "megatron"), ("--html", "page.html")),
        (("--export", "megatron"), ("--timeline",)),
        (("--export", "megatron"), ("--gantt",)),
        (("--export", "megatron"), ("--explain", "parameters")),
        (("--explain", "parameters"), ("--html", "page.html")),
        (("--explain", "parameters"), ("--timeline",)),
    ],
)
def test_what_prints_one_thing_alone_takes_no_other(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    result = run("estimate", "gpt2", "--gpus", "8xA100", *first, *second)
    assert result.code == 2
    assert f"{first[0]}: {first[1]} is given beside {second[0]}" in result.err
    assert not result.out
