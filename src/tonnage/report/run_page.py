"""A run as a page: verdict, memory over a step, stages, schedule, seconds, and what is assumed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tonnage.quantity import GIB, format_count, format_percent, format_seconds
from tonnage.report.inks import CATEGORY_COLOURS, MEANS, PASS_COLOURS
from tonnage.report.lanes import lanes
from tonnage.report.memory import gib, plan_line
from tonnage.report.page import Page, graph_objects
from tonnage.report.palette import colour

if TYPE_CHECKING:
    from tonnage.estimation import Estimate, RunTimeline
    from tonnage.estimation.timeline import PipelinePart, TimelinePart

MOST_SPANS = 20_000
"""Stretches of a schedule that a page draws; a browser is slow with more."""


def run_page(answer: Estimate, run: RunTimeline) -> Page:
    """The page of a run.

    Raises:
        MissingPartError: plotly is not installed.
    """
    model, cluster = answer.model, answer.cluster
    page = Page(f"{model.name} on {cluster.gpus} x {cluster.device}")
    add_run(page, answer, run)
    return page


def add_run(page: Page, answer: Estimate, run: RunTimeline) -> None:
    """Put a run on a page: its verdict, memory, stages, schedule and seconds, and what is assumed.

    Raises:
        MissingPartError: plotly is not installed.
    """
    go = graph_objects()
    _verdict(page, answer)
    _memory(page, go, answer, run)
    _stages(page, go, answer)
    if len(run.stages) > 1:
        _schedule(page, go, run.pipeline)
    _seconds(page, go, answer)
    page.heading("Assumed")
    page.listing(answer.assumptions)
    page.heading("Not modelled")
    page.listing(answer.not_modelled)


def _verdict(page: Page, answer: Estimate) -> None:
    memory, step = answer.memory, answer.step
    peak, room = memory.peak_bytes.device, memory.capacity_bytes
    verdict = "fits" if answer.fits else "does not fit"
    page.text(
        f"It {verdict}: {gib(peak)} of {gib(room)} GiB on rank {memory.worst_rank} "
        f"({memory.peak_instant}); {format_seconds(step.seconds)} a step, "
        f"{format_count(step.tokens_per_second)} tokens/s, MFU {format_percent(step.mfu)}.",
        "fits" if answer.fits else "not",
    )
    page.text(plan_line(answer), "note")


def _memory(page: Page, go: Any, answer: Estimate, run: RunTimeline) -> None:
    room = answer.memory.capacity_bytes - answer.memory.outside_bytes
    line = run.fullest
    page.heading("Memory over a step")
    page.text(
        f"Tensors of stage {line.stage}. Peak {gib(line.peak_bytes)} GiB: {line.peak_instant}, "
        f"{line.peak_phase}. Between two points memory is drawn as a line."
    )
    page.figure(_area(go, line, room), 420)
    if run.pipeline.replayed < run.pipeline.microbatches:
        page.text(
            f"{run.pipeline.replayed} of {run.pipeline.microbatches} micro-batches are drawn; "
            "the others repeat what they hold.",
            "note",
        )
    page.text("The first step, with loading before it (how long that takes is not known):")
    page.figure(_area(go, run.first_step, room), 320)
    page.heading("Largest tensors at the peak")
    page.table(
        ("tensor", "category", "count", "GiB"),
        [(row.name, row.category, str(row.count), gib(row.bytes)) for row in line.top_tensors],
        words=2,
    )


def _area(go: Any, line: TimelinePart, room: int) -> Any:
    figure = go.Figure()
    names = [
        escape(name)
        for start, name in zip(line.instants, _phases(line), strict=True)
        for name in [f"{start}: {name}"]
    ]
    for name, series in line.categories.items():
        if max(series):
            figure.add_trace(
                go.Scatter(
                    x=line.seconds,
                    y=[size / GIB for size in series],
                    name=name,
                    stackgroup="memory",
                    mode="lines",
                    line={"width": 0.5, "color": CATEGORY_COLOURS[name]},
                    text=names,
                    hovertemplate="%{y:.2f} GiB<br>%{text}",
                )
            )
    figure.add_hline(y=room / GIB, line_dash="dash", annotation_text="room for tensors")
    figure.update_xaxes(title="seconds")
    figure.update_yaxes(title="GiB", rangemode="tozero")
    return figure


def _phases(line: TimelinePart) -> list[str]:
    """The phase of each point."""
    starts = {phase.point: phase.name for phase in line.phases}
    found: list[str] = []
    for point in range(len(line.seconds)):
        found.append(starts.get(point) or found[-1])
    return found


def _stages(page: Page, go: Any, answer: Estimate) -> None:
    memory = answer.memory
    page.heading("Stages at their peaks")
    figure = go.Figure()
    labels = [f"stage {stage.stage}" for stage in memory.stages]
    for name in CATEGORY_COLOURS:
        sizes = [stage.categories[name] / GIB for stage in memory.stages]
        if max(sizes):
            figure.add_trace(
                go.Bar(x=labels, y=sizes, name=name, marker_color=CATEGORY_COLOURS[name])
            )
    beyond = [
        (stage.peak_bytes.device - stage.peak_bytes.allocated) / GIB for stage in memory.stages
    ]
    figure.add_trace(
        go.Bar(x=labels, y=beyond, name="allocator and outside", marker_color="#bbbbbb")
    )
    figure.add_hline(y=memory.capacity_bytes / GIB, line_dash="dash", annotation_text="capacity")
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title="GiB")
    page.figure(figure, 380)
    page.table(
        ("stage", "peak at", "rank", "layers", "allocated", "reserved", "device", "headroom"),
        [
            (
                str(stage.stage),
                stage.peak_instant,
                str(stage.first_rank),
                str(stage.layers),
                gib(stage.peak_bytes.allocated),
                gib(stage.peak_bytes.reserved),
                gib(stage.peak_bytes.device),
                gib(memory.capacity_bytes - stage.peak_bytes.device),
            )
            for stage in memory.stages
        ],
        words=2,
    )


def _schedule(page: Page, go: Any, pipeline: PipelinePart) -> None:
    page.heading(f"Schedule: {pipeline.schedule}")
    placed = [(stage, each) for stage, lane in lanes(pipeline).items() for each in lane]
    drawn = sorted(placed, key=lambda pair: pair[1].start)[:MOST_SPANS]
    figure = go.Figure()
    for letter, meaning in MEANS.items():
        chosen = [(stage, each) for stage, each in drawn if each.letter == letter]
        if chosen:
            figure.add_trace(
                go.Bar(
                    y=[stage for stage, _ in chosen],
                    base=[each.start for _, each in chosen],
                    x=[each.end - each.start for _, each in chosen],
                    orientation="h",
                    name=meaning,
                    marker={"color": PASS_COLOURS[letter], "line": {"width": 0.5, "color": "#fff"}},
                    hovertext=[
                        f"{meaning}, micro-batch {each.microbatch}, chunk {each.chunk}"
                        for _, each in chosen
                    ],
                )
            )
    figure.update_layout(barmode="overlay", bargap=0.15)
    figure.update_yaxes(title="stage", autorange="reversed", dtick=1)
    figure.update_xaxes(title="seconds")
    page.figure(figure, 160 + 26 * len(pipeline.exposed_share))
    gap = pipeline.form_seconds / pipeline.step_seconds - 1.0
    page.text(
        f"What is white is idle: {format_percent(pipeline.idle)} of the passes drawn. All "
        f"{pipeline.microbatches} micro-batches take {format_seconds(pipeline.step_seconds)} pass "
        f"by pass, and {format_seconds(pipeline.form_seconds)} ({gap:+.1%}) by the closed form of "
        "the estimate.",
        "note",
    )
    if len(drawn) < len(placed):
        page.text(f"The first {len(drawn)} of {len(placed)} stretches are drawn.", "note")


def _seconds(page: Page, go: Any, answer: Estimate) -> None:
    step = answer.step
    page.heading("Where the seconds go")
    parts = {name: value for name, value in step.breakdown.items() if value > 0}
    figure = go.Figure()
    for index, (name, value) in enumerate(parts.items()):
        figure.add_trace(
            go.Bar(y=["step"], x=[value], name=name, orientation="h", marker_color=colour(index))
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="seconds")
    page.figure(figure, 200)
    page.table(
        ("part", "seconds", "share"),
        [
            (name, format_seconds(value), format_percent(value / step.seconds))
            for name, value in parts.items()
        ],
    )
