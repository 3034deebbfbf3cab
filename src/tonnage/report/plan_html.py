"""The plans of a search as a page: the cloud, the frontier, and the best plan over a step."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tonnage.quantity import GIB
from tonnage.report.page import Page, graph_objects
from tonnage.report.palette import colour
from tonnage.report.plan import launch_words
from tonnage.report.run_page import add_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.estimation import RunTimeline
    from tonnage.search import Question, SearchAnswer
    from tonnage.search.answer import Mark

GREY = "#8c8c8c"
LIGHT = "#d0d0d0"
TALL = 620
REACH = 2.0
"""The figure opens on step times up to this times the best; what is beyond is a zoom away."""


def plan_page(question: Question, answer: SearchAnswer, run: RunTimeline | None) -> Page:
    """The page of a search.

    Args:
        question: what was asked.
        answer: what was found.
        run: the best plan over a step; None where there is none.

    Raises:
        MissingPartError: plotly is not installed.
    """
    go = graph_objects()
    page = Page(f"Plans of {question.architecture.name}")
    found = "" if answer.plans else " No plan meets the limits."
    page.text(
        f"{answer.space:,} legal plans, {answer.evaluated:,} weighed, {answer.feasible:,} within "
        f"the limits; bounds exclude the others.{found}"
    )
    page.heading("Step time against memory")
    page.figure(_cloud(go, answer), TALL)
    page.text(
        "Of the plans that were weighed the fastest of each group is drawn. A light mark is a row "
        "of degrees of which bounds exclude every plan: none of its plans is faster than the mark, "
        "nor smaller. Where these rows are many, some of them are drawn, evenly spread; those "
        "whose states alone are larger than a device are not.",
        "note",
    )
    if answer.plans and run is not None:
        best = answer.plans[0].estimate
        page.heading("The best plan")
        page.text(launch_words(question, best.plan))
        add_run(page, best, run)
    return page


def _cloud(go: Any, answer: SearchAnswer) -> Any:
    """What is excluded and what misses a limit in grey, the others in colour."""
    figure = go.Figure()
    over = [mark for mark in answer.cloud if not mark.good]
    good = [mark for mark in answer.cloud if mark.good]
    figure.add_trace(_marks(go, answer.excluded, "excluded by bounds: floors", LIGHT))
    figure.add_trace(_marks(go, over, "weighed, over a limit", GREY))
    figure.add_trace(_marks(go, good, "weighed, within the limits", colour(0)))
    figure.add_trace(
        go.Scatter(
            x=[point.seconds for point in answer.frontier],
            y=[point.device_bytes / GIB for point in answer.frontier],
            mode="lines+markers",
            name="frontier",
            line={"color": colour(1), "shape": "hv"},
        )
    )
    if answer.plans:
        best = answer.plans[0].estimate
        figure.add_trace(
            go.Scatter(
                x=[best.step.seconds],
                y=[best.memory.peak_bytes.device / GIB],
                mode="markers",
                name="best",
                marker={"color": colour(3), "size": 14, "symbol": "star"},
            )
        )
        figure.update_xaxes(range=[0, REACH * best.step.seconds])
    figure.update_xaxes(title="step, s")
    figure.update_yaxes(title="worst rank's device, GiB", rangemode="tozero")
    return figure


def _marks(go: Any, marks: Sequence[Mark], name: str, ink: str) -> Any:
    return go.Scatter(
        x=[mark.seconds for mark in marks],
        y=[mark.device_bytes / GIB for mark in marks],
        text=[escape(mark.label) for mark in marks],
        mode="markers",
        name=name,
        marker={"color": ink, "size": 6, "opacity": 0.7},
    )
