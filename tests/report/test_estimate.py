from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from tonnage import Estimate, Limits, Plan, estimate, load, parse_cluster
from tonnage.report.estimate import print_estimate
from tonnage.report.memory import gib


def printed(answer: Estimate, *, width: int = 80, colour: bool = False) -> str:
    file = io.StringIO()
    screen = Console(
        file=file,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
    )
    print_estimate(answer, screen=screen)
    return file.getvalue()


@pytest.fixture(scope="module")
def staged() -> Estimate:
    plan = Plan(seq=4096, tp=2, pp=4)
    limits = Limits(tokens=10**12)
    return estimate(load("llama-3.1-70b"), plan, parse_cluster("64xH100"), limits)


def test_the_verdict_comes_first(staged: Estimate) -> None:
    lines = printed(staged).splitlines()
    word = "fits" if staged.fits else "does not fit"
    assert lines[0] == f"llama-3.1-70b {word} on 64 x H100-SXM5-80GB"
    assert "8 nodes of 8" in lines[1]
    assert "tp 2, pp 4, dp 8, zero 1" in lines[2]
    titles = [line.split("  ")[0] for line in lines if re.match(r"[A-Z][A-Za-z ]+", line)]
    assert titles[0].startswith(f"Memory of rank {staged.memory.worst_rank}")
    assert titles[1:] == [
        "Pipeline stages",
        "Step",
        "FLOPs",
        "Communication",
        "Run",
        "Assumed",
        "Not modelled",
    ]


def test_every_number_of_the_memory_is_there(staged: Estimate) -> None:
    text = printed(staged)
    memory = staged.memory
    for name, size in memory.categories.items():
        assert bool(re.search(rf"^  {name} .* {gib(size)} ", text, re.MULTILINE)) == (size > 0)
    for counter in ("allocated", "reserved", "device"):
        size = getattr(memory.peak_bytes, counter)
        assert re.search(rf"^  {counter} +{gib(size)} ", text, re.MULTILINE)
    low, high = memory.range_bytes
    assert f"range {gib(low)} to {gib(high)} GiB" in text
    assert text.count("of backward") + text.count("of forward") + text.count("first backward") >= 4


def test_both_conventions_of_utilisation(staged: Estimate) -> None:
    text = printed(staged)
    assert "full" in text
    for name, full, causal in (
        ("MFU", staged.step.mfu, staged.step.mfu_causal),
        ("HFU", staged.step.hfu, staged.step.hfu_causal),
    ):
        assert re.search(rf"^  {name} +{full:.1%} +{causal:.1%} ", text, re.MULTILINE)


@pytest.mark.parametrize("width", [60, 80, 108, 200])
def test_it_keeps_within_the_terminal(staged: Estimate, width: int) -> None:
    lines = printed(staged, width=width).splitlines()
    assert max(map(len, lines)) <= max(width, 80)
    assert not any(line != line.rstrip() for line in lines)


def test_one_stage_has_no_table_of_stages() -> None:
    answer = estimate(load("gpt2"), Plan(), parse_cluster("H100"))
    text = printed(answer)
    assert "Pipeline stages" not in text
    assert "Communication" not in text
    assert "\nRun" not in text


def test_colours_tell_the_verdict(staged: Estimate) -> None:
    tight = estimate(load("llama-3.1-405b"), Plan(), parse_cluster("8xH100"))
    assert "\x1b[1;31mdoes not fit" in printed(tight, colour=True)
    fitting = estimate(load("gpt2"), Plan(), parse_cluster("H100"))
    assert "\x1b[1;32mfits" in printed(fitting, colour=True)
    assert "\x1b" not in printed(staged)


def test_too_close_to_call() -> None:
    model, cluster = load("gpt2"), parse_cluster("H100")
    free = estimate(model, Plan(), cluster).memory
    limits = Limits(memory_limit=(free.peak_bytes.device + free.range_bytes[1]) // 2)
    answer = estimate(model, Plan(), cluster, limits)
    assert answer.fits
    assert "too close to call" in printed(answer)


def test_gib_shows_no_nothing() -> None:
    assert gib(0) == "0.00"
    assert gib(1) == "<0.01"
    assert gib(2**30) == "1.00"
