"""A roofline as a page of its own, which plotly draws without a network."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from tonnage.errors import MissingPartError
from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.roofline import Chart, Point, Roof

_SYMBOLS = {"training": "square", "prefill": "circle", "decode": "triangle-up"}


def html(chart: Chart) -> str:
    """The page, with plotly's own script in it.

    Raises:
        MissingPartError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingPartError(part="plotly", extra="plot", purpose="an HTML file") from None
    figure = go.Figure()
    for index, roof in enumerate(chart.roofs):
        figure.add_trace(_roof(go, chart, roof, colour(index)))
    by_phase = groupby(chart.points, lambda point: (point.model, point.phase))
    for index, ((model, phase), group) in enumerate(by_phase):
        figure.add_trace(
            _points(go, chart, f"{model} {phase}", list(group), _SYMBOLS[phase], index)
        )
    figure.update_layout(
        title=f"Roofline, dense {chart.dtype}",
        template="plotly_white",
        xaxis={"type": "log", "title": "FLOP per byte"},
        yaxis={"type": "log", "title": "FLOP/s"},
    )
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def _roof(go: Any, chart: Chart, roof: Roof, ink: str) -> Any:
    low, high = chart.intensities
    x = sorted((low, roof.ridge, high))
    return go.Scatter(
        x=x,
        y=[roof.attainable(intensity) for intensity in x],
        mode="lines",
        name=f"{roof.device}, ridge {roof.ridge:.0f}",
        line={"color": ink},
    )


def _points(go: Any, chart: Chart, name: str, points: list[Point], symbol: str, index: int) -> Any:
    """The operations of one phase, each below every roof."""
    placed = [(point, roof) for roof in chart.roofs for point in points]
    return go.Scatter(
        x=[point.intensity for point, _ in placed],
        y=[roof.attainable(point.intensity) for point, roof in placed],
        text=[
            f"{point.name} on {roof.device}: {roof.bound(point)}-bound" for point, roof in placed
        ],
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": 9, "color": colour(index + len(chart.roofs))},
    )
