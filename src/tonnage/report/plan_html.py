"""Every plan that a search weighed, as a page of its own, which plotly draws without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonnage.errors import InputError, MissingPartError
from tonnage.quantity import GIB
from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.search import SearchAnswer

GREY = "#b8b8b8"


def write(answer: SearchAnswer, path: str) -> None:
    """Write the page.

    Raises:
        InputError: the file cannot be written.
        MissingPartError: plotly is not installed.
    """
    page = html(answer)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise InputError(
            field="html", value=path, problem=f"cannot be written: {error.strerror or error}"
        ) from None


def html(answer: SearchAnswer) -> str:
    """The page: the cloud with its frontier, and where the best plan's step and memory go.

    Raises:
        MissingPartError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError:
        raise MissingPartError(part="plotly", extra="plot", purpose="an HTML file") from None
    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{"colspan": 2}, None], [{}, {}]],
        row_heights=[0.65, 0.35],
        subplot_titles=("Plans weighed", "A step of the best plan", "Memory of its worst rank"),
    )
    for trace in _cloud(go, answer):
        figure.add_trace(trace, row=1, col=1)
    if answer.plans:
        best = answer.plans[0].estimate
        step = {name: seconds for name, seconds in best.step.breakdown.items() if seconds}
        memory = {name: size / GIB for name, size in best.memory.categories.items() if size}
        figure.add_trace(_bars(go, step, "s", 3), row=2, col=1)
        figure.add_trace(_bars(go, memory, "GiB", 4), row=2, col=2)
    figure.update_xaxes(title_text="step, s", row=1, col=1)
    figure.update_yaxes(title_text="worst rank's device, GiB", row=1, col=1)
    figure.update_layout(title=_title(answer), template="plotly_white", height=950)
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def _title(answer: SearchAnswer) -> str:
    if not answer.plans:
        return f"No plan of {answer.space:,} meets the limits"
    best = answer.plans[0].estimate
    return f"{best.model.name}: {answer.space:,} legal plans, {answer.evaluated:,} weighed"


def _cloud(go: Any, answer: SearchAnswer) -> list[Any]:
    """What misses a limit in grey, what meets all in colour, the frontier and the best."""
    traces = []
    for good, name, ink in ((False, "over a limit", GREY), (True, "within the limits", colour(0))):
        marks = [mark for mark in answer.cloud if mark.good is good]
        traces.append(
            go.Scatter(
                x=[mark.seconds for mark in marks],
                y=[mark.device_bytes / GIB for mark in marks],
                text=[mark.label for mark in marks],
                mode="markers",
                name=f"{name}: the fastest of each group",
                marker={"color": ink, "size": 6, "opacity": 0.7},
            )
        )
    traces.append(
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
        traces.append(
            go.Scatter(
                x=[best.step.seconds],
                y=[best.memory.peak_bytes.device / GIB],
                mode="markers",
                name="best",
                marker={"color": colour(3), "size": 14, "symbol": "star"},
            )
        )
    return traces


def _bars(go: Any, parts: dict[str, float], unit: str, index: int) -> Any:
    ranked = sorted(parts.items(), key=lambda item: item[1])
    return go.Bar(
        x=[size for _, size in ranked],
        y=[name.replace("_", " ") for name, _ in ranked],
        text=[f"{size:.3g} {unit}" for _, size in ranked],
        orientation="h",
        showlegend=False,
        marker={"color": colour(index)},
    )
