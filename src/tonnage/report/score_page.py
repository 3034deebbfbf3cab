"""The scoreboard of measured runs as a page: predicted against measured, errors, and a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tonnage.quantity import GIB
from tonnage.report.page import Page, graph_objects
from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.score import Scoreboard, Scored
    from tonnage.score.metrics import Errors, Outcome

REFUSALS_SHOWN = 50


def score_page(board: Scoreboard, scored: Sequence[Scored]) -> Page:
    """The page of some scored rows.

    Raises:
        MissingPartError: plotly is not installed.
    """
    go = graph_objects()
    page = Page("Predicted and measured")
    page.text(f"{len(scored)} runs of {len(board.families)} files.")
    views: tuple[tuple[str, str, float, Callable[[Scored], Outcome | None]], ...] = (
        ("Memory", "GiB", float(GIB), lambda row: row.memory),
        ("Time of a step", "s", 1.0, lambda row: row.time),
    )
    for title, unit, scale, of in views:
        points = _points(scored, of)
        if not points:
            continue
        page.heading(title)
        page.figure(_scatter(go, points, unit, scale), 520)
        page.text("Predicted over measured, less 1:")
        page.figure(_residuals(go, points, unit, scale), 380)
        parts = {**board.families, "all rows": board.pooled}
        errors = {
            name: part.memory if title == "Memory" else part.time for name, part in parts.items()
        }
        _table(page, errors)
    if board.refused:
        page.heading(f"Refused: {len(board.refused)}")
        page.listing(
            f"{refusal.family} {refusal.row}: {refusal.reason}"
            for refusal in board.refused[:REFUSALS_SHOWN]
        )
    return page


Points = dict[str, list[tuple[str, float, float]]]
"""By family: a row's name, measured, predicted."""


def _points(scored: Sequence[Scored], of: Callable[[Scored], Outcome | None]) -> Points:
    """Rows that were answered."""
    found: Points = defaultdict(list)
    for row in scored:
        outcome = of(row)
        if outcome is not None and outcome.predicted is not None:
            found[row.row.family].append(
                (row.row.name, float(outcome.measured), float(outcome.predicted))
            )
    return found


def _markers(go: Any, points: Points, place: Callable[[float, float], tuple[float, float]]) -> Any:
    figure = go.Figure()
    for index, (family, rows) in enumerate(points.items()):
        placed = [place(measured, predicted) for _, measured, predicted in rows]
        figure.add_trace(
            go.Scatter(
                x=[x for x, _ in placed],
                y=[y for _, y in placed],
                text=[escape(name) for name, _, _ in rows],
                name=escape(family),
                mode="markers",
                marker={"color": colour(index), "size": 7, "opacity": 0.75},
            )
        )
    return figure


def _scatter(go: Any, points: Points, unit: str, scale: float) -> Any:
    figure = _markers(go, points, lambda measured, said: (measured / scale, said / scale))
    figures = [each / scale for rows in points.values() for _, *pair in rows for each in pair]
    ends = [min(figures), max(figures)]
    figure.add_trace(
        go.Scatter(x=ends, y=ends, mode="lines", name="equal", line={"color": "#888", "width": 1})
    )
    figure.update_xaxes(type="log", title=f"measured, {unit}")
    figure.update_yaxes(type="log", title=f"predicted, {unit}")
    return figure


def _residuals(go: Any, points: Points, unit: str, scale: float) -> Any:
    figure = _markers(go, points, lambda measured, said: (measured / scale, said / measured - 1.0))
    figure.add_hline(y=0.0, line_color="#888", line_width=1)
    figure.update_xaxes(type="log", title=f"measured, {unit}")
    figure.update_yaxes(tickformat=".0%", title="error")
    return figure


def _table(page: Page, errors: dict[str, Errors]) -> None:
    def percent(figure: float | None) -> str:
        return "-" if figure is None else f"{figure:.1%}"

    page.table(
        ("", "rows", "answered", "median", "mean", "90%", "worst", "bias"),
        [
            (
                name,
                str(each.eligible),
                percent(each.coverage),
                percent(each.median_abs_error),
                percent(each.mean_abs_error),
                percent(each.p90_abs_error),
                percent(each.worst_abs_error),
                percent(each.bias),
            )
            for name, each in errors.items()
            if each.eligible
        ],
    )
