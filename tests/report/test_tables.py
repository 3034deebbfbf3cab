"""Tables keep their figures whole, however narrow the terminal is."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from tests.cli.running import run
from tonnage.report.layout import listing


def printed(width: int, rows: Sequence[Sequence[str]]) -> list[str]:
    file = io.StringIO()
    screen = Console(file=file, width=width, markup=False, emoji=False, highlight=False)
    listing(screen, [("name", "left"), ("kind", "left"), ("count", "right")], rows)
    return file.getvalue().splitlines()


def test_words_wrap_before_figures_are_cut() -> None:
    rows = [("communication buffers and gathered parameters", "buffers", "1234567.89")]
    assert len(printed(80, rows)) == 2
    narrow = printed(40, rows)
    assert "1234567.89" in narrow[1]
    assert max(map(len, narrow)) <= 40
    assert not any("…" in line for line in narrow)


@pytest.mark.parametrize("width", [1, 8, 20, 27, 40, 80])
def test_no_figure_is_cut_on_a_screen_that_is_too_narrow_for_it(width: int) -> None:
    """Half a figure is another figure: a line is rather longer than the screen."""
    rows = [("step", "wall clock", "1234567.89 s"), ("peak", "device", "-98765.4 GiB")]
    text = "\n".join(printed(width, rows))
    for *_, figure in rows:
        assert figure in text
    for word in ("step", "peak", "wall", "clock", "device", "name", "kind", "count"):
        assert word in text


@pytest.mark.parametrize("more", [(), ("--price", "1.8"), ("--gpus", "4xA100,4xH100")])
def test_the_best_plans_stand_under_their_own_names(more: tuple[str, ...]) -> None:
    words = ("gpt2", "--gbs", "32", "--seq", "1024", "--vpp", "1", "--pp", "1", "--tokens", "1T")
    cluster = () if "--gpus" in more else ("--gpus", "4xA100")
    lines = run("plan", *words, *cluster, *more).out.splitlines()
    start = lines.index("The best plans  one of each structure (tp, pp, cp, ep)")
    header, first = lines[start + 1], lines[start + 2]
    assert "…" not in first
    assert first.split()[header.split().index("step") + 1 :][1] in {"ms", "s"}
    assert len(first) <= 80
