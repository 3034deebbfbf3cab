"""What each stage of a pipeline does, stretch by stretch, as pictures draw it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonnage.report.inks import EXPOSED, WAYS

if TYPE_CHECKING:
    from tonnage.estimation.timeline import PipelinePart, SpanPart


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A stretch of one stage's time: seconds, the letter of what it does, and of whom."""

    start: float
    end: float
    letter: str
    microbatch: int
    chunk: int


def lanes(pipeline: PipelinePart) -> dict[int, list[Stretch]]:
    """By stage, its stretches in order; what is between them is idle.

    Passes that run side by side share their time one after the other. Communication in the open
    is drawn at the end of a pass, wherever in it it lies.
    """
    together: dict[int, dict[tuple[float, float], list[SpanPart]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for span in pipeline.spans:
        together[span.stage][span.start, span.end].append(span)
    return {
        stage: [
            stretch
            for (start, end), spans in sorted(together[stage].items())
            for stretch in _stretches(spans, start, end, pipeline.exposed_share[stage])
        ]
        for stage in sorted(together)
    }


def _stretches(spans: list[SpanPart], start: float, end: float, exposed: float) -> list[Stretch]:
    sends = any(span.way != "weight" for span in spans)
    shown = (end - start) * (1.0 - sends * exposed)
    found = [
        Stretch(
            start=start + shown * place / len(spans),
            end=start + shown * (place + 1) / len(spans),
            letter=WAYS[span.way],
            microbatch=span.microbatch,
            chunk=span.chunk,
        )
        for place, span in enumerate(spans)
    ]
    if start + shown < end:
        last = spans[-1]
        found.append(
            Stretch(
                start=start + shown,
                end=end,
                letter=EXPOSED,
                microbatch=last.microbatch,
                chunk=last.chunk,
            )
        )
    return found
