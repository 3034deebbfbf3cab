"""A run over a step on a terminal and as a page."""

from __future__ import annotations

import dataclasses
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tonnage import Estimate, Plan, estimate, load, parse_cluster
from tonnage.estimation import RunTimeline, timeline
from tonnage.report.area import fullest_in, rows_of
from tonnage.report.gantt import print_gantt
from tonnage.report.inks import CATEGORY_LETTERS
from tonnage.report.memory import gib
from tonnage.report.timeline import print_timeline

PLAN = Plan(seq=4096, tp=2, pp=4, grad_acc=8, schedule="zero-bubble")
HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.fixture(scope="module")
def run() -> RunTimeline:
    return timeline(load("llama-3.1-8b"), PLAN, parse_cluster("8xH100"))


@pytest.fixture(scope="module")
def answer() -> Estimate:
    return estimate(load("llama-3.1-8b"), PLAN, parse_cluster("8xH100"))


def screen(*, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    return Console(
        file=file,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
    )


def text_of(console: Console) -> str:
    buffer = console.file.buffer  # type: ignore[attr-defined]
    written: bytes = buffer.getvalue()
    return written.decode()


def test_the_chart_names_its_peak_and_what_is_alive(answer: Estimate, run: RunTimeline) -> None:
    console = screen()
    print_timeline(console, answer, run)
    text = text_of(console)
    line = run.fullest
    assert f"peak {gib(line.peak_bytes)} GiB" in text
    assert line.peak_phase in text
    assert f"stage {line.stage} of 4" in text
    for row in line.top_tensors:
        assert row.name in text
    assert "\x1b" not in text
    drawn = {letter for row in text.splitlines() if "│" in row for letter in row.partition("│")[2]}
    assert drawn <= {*CATEGORY_LETTERS.values(), " ", "-"}
    assert {"P", "G", "A"} <= drawn


def test_a_near_capacity_is_a_line(answer: Estimate, run: RunTimeline) -> None:
    room = dataclasses.replace(
        answer.memory,
        capacity_bytes=int(1.2 * run.fullest.peak_bytes) + answer.memory.outside_bytes,
    )
    near, far = screen(), screen()
    print_timeline(near, dataclasses.replace(answer, memory=room), run)
    print_timeline(far, answer, run)
    assert "│-----" in text_of(near)
    assert "│-----" not in text_of(far)
    assert "beyond the chart" in text_of(far)


def test_colours_where_there_are_any(answer: Estimate, run: RunTimeline) -> None:
    console = screen(colour=True)
    print_timeline(console, answer, run)
    print_gantt(console, run.pipeline)
    text = text_of(console)
    assert "█" in text
    assert "\x1b[38;2;" in text
    ascii_console = screen(encoding="ascii")
    print_timeline(ascii_console, answer, run)
    print_gantt(ascii_console, run.pipeline)
    assert text_of(ascii_console).isascii()


@pytest.mark.parametrize("width", [60, 80, 108])
def test_pictures_keep_within_the_terminal(answer: Estimate, run: RunTimeline, width: int) -> None:
    console = screen(width=width)
    print_timeline(console, answer, run)
    print_gantt(console, run.pipeline)
    lines = text_of(console).splitlines()
    assert max(map(len, lines)) <= max(width, 80)


def test_the_schedule_has_a_row_a_stage(run: RunTimeline) -> None:
    console = screen(width=108)
    print_gantt(console, run.pipeline)
    rows = re.findall(r"^  (\d) ([FBWc.]+)$", text_of(console), re.MULTILINE)
    stages = [int(stage) for stage, _ in rows]
    assert stages in ([0, 1, 2, 3], [0, 1, 2, 3] * 2)
    first = dict(zip(stages, (row for _, row in rows[:4]), strict=False))
    assert first[0].startswith("F")
    assert [len(first[stage]) - len(first[stage].lstrip(".")) for stage in range(4)] == sorted(
        len(first[stage]) - len(first[stage].lstrip(".")) for stage in range(4)
    )
    assert "W" in "".join(row for _, row in rows)


@given(
    sizes=st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=2, max_size=9),
    columns=st.integers(1, 12),
)
def test_no_peak_is_lost_in_a_chart(sizes: list[list[int]], columns: int) -> None:
    stacks = [dict(zip("abc", map(float, each), strict=True)) for each in sizes]
    places = [float(index) for index in range(len(stacks))]
    found = fullest_in(places, stacks, 0.0, places[-1], columns)
    most = max(sum(stack.values()) for stack in stacks)
    assert len(found) == columns
    assert max(sum(stack.values()) for stack in found) == pytest.approx(most)
    rows = rows_of(found, max(most, 1.0), 10)
    assert all(len(row) == columns for row in rows)
    for column, stack in enumerate(found):
        assert any(row[column] for row in rows) == (sum(stack.values()) > 0)


class Reader(HTMLParser):
    """What a browser would fetch, and the words that it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.scripts = 0
        self.words: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag in ("script", "style")
        self.scripts += tag == "script"
        self.fetched += [
            value for name, value in attrs if name in ("src", "href", "data") and value
        ]

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag not in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._in_script:
            self.words.append(data)


def read(page: object) -> Reader:
    reader = Reader()
    reader.feed(str(page))
    return reader


def test_the_page_shows_all_and_fetches_nothing(
    answer: Estimate, run: RunTimeline, tmp_path: Path
) -> None:
    pytest.importorskip("plotly")
    from tonnage.report.run_page import run_page

    page = run_page(answer, run)
    reader = read(page)
    assert reader.fetched == []
    words = " ".join(reader.words)
    for expected in (
        "Memory over a step",
        "Largest tensors at the peak",
        "Stages at their peaks",
        "Schedule: zero-bubble",
        "Where the seconds go",
        *answer.assumptions,
        *answer.not_modelled,
        gib(run.fullest.peak_bytes),
        run.fullest.top_tensors[0].name,
    ):
        assert expected in words
    size = page.write(tmp_path / "run.html")
    assert size == (tmp_path / "run.html").stat().st_size < 8_000_000


def test_what_a_person_named_is_escaped(answer: Estimate, run: RunTimeline) -> None:
    pytest.importorskip("plotly")
    from tonnage.report.run_page import run_page

    plain = read(run_page(answer, run))
    named = dataclasses.replace(
        answer,
        model=dataclasses.replace(answer.model, name=HOSTILE),
        assumptions=(HOSTILE, *answer.assumptions),
        not_modelled=(HOSTILE,),
        plan=dataclasses.replace(answer.plan, runtime=HOSTILE),
    )
    hostile = run_page(named, run)
    reader = read(hostile)
    assert reader.scripts == plain.scripts
    assert "<script>alert" not in str(hostile)
    assert HOSTILE in "".join(reader.words)
