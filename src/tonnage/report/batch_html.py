"""Batch curves as a page of its own, which plotly draws without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonnage.errors import InputError, MissingPartError
from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.search.batch_curve import BatchCurve, BatchPoint


def write_html(curve: BatchCurve, path: Path) -> None:
    """Write the page.

    Raises:
        MissingPartError: plotly is not installed.
        InputError: the file cannot be written.
    """
    page = batch_html(curve)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(
            field="html", value=str(path), problem=f"cannot be written: {error.strerror}"
        ) from None


def batch_html(curve: BatchCurve) -> str:
    """The page, with plotly's own script in it.

    Raises:
        MissingPartError: plotly is not installed.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise MissingPartError(part="plotly", extra="plot", purpose="an HTML file") from None
    plan, answer = curve.answer.plan, curve.answer
    figure = make_subplots(
        rows=1,
        cols=2,
        subplot_titles=(
            f"micro-batch, grad_acc {plan.grad_acc}",
            f"global batch, mbs {plan.mbs}",
        ),
    )
    _curve(figure, curve.micro, [p.mbs for p in curve.micro], column=1)
    _curve(figure, curve.whole, [p.gbs for p in curve.whole], column=2)
    if curve.micro_knee is not None:
        figure.add_vline(x=curve.micro_knee, line_dash="dot", row=1, col=1, annotation_text="knee")
    if curve.largest_mbs is not None:
        figure.add_vline(
            x=curve.largest_mbs, line_dash="dash", row=1, col=1, annotation_text="most that fits"
        )
    figure.add_vline(x=curve.knee, line_dash="dot", row=1, col=2, annotation_text="knee")
    figure.update_xaxes(type="log", title_text="sequences")
    figure.update_yaxes(title_text="tokens/s", rangemode="tozero")
    figure.update_layout(
        title=f"{answer.model.name} on {answer.cluster.gpus} x {answer.cluster.device}",
        template="plotly_white",
        showlegend=False,
    )
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def _curve(figure: Any, points: Sequence[BatchPoint], sizes: Sequence[int], *, column: int) -> None:
    figure.add_scatter(
        x=list(sizes),
        y=[point.tokens_per_second for point in points],
        mode="lines+markers",
        marker={"color": [colour(0) if point.fits else colour(1) for point in points]},
        line={"color": colour(0)},
        text=[f"{point.seconds:.3g} s, {point.peak_bytes / 2**30:.1f} GiB" for point in points],
        row=1,
        col=column,
    )
