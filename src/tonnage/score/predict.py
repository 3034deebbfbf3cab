"""A row's prediction: one figure for memory, one for time, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.estimation import Estimate, estimate
from tonnage.memory.outside import RESERVED_SHARE_WORST
from tonnage.score.case import Case, case
from tonnage.score.measured import COUNTERS
from tonnage.score.row import Row


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What an estimate says of a row.

    Attributes:
        memory: bytes, by the counter and on the stage that the row names.
        memory_range: lower and upper end of it.
        seconds: of a step.
        seconds_range: lower and upper end of it.
        fits: whether the worst rank fits its device.
        unknown: words of the recipe that were not understood.
        refused: why there is no answer; empty where there is one.
    """

    memory: float = 0.0
    memory_range: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    seconds_range: tuple[float, float] = (0.0, 0.0)
    fits: bool | None = None
    unknown: tuple[str, ...] = ()
    refused: str = ""


def predict(row: Row, *, measured_network: bool = False) -> Prediction:
    """Predict one row from its input columns alone.

    Args:
        row: the measured run.
        measured_network: what the run measured of its own network may be used, too.
    """
    try:
        asked = case(row, measured_network=measured_network)
        if asked.refused:
            return Prediction(refused="; ".join(asked.refused), unknown=asked.unknown)
        answer = estimate(asked.architecture, asked.plan, asked.cluster)
    except InputError as error:
        return Prediction(refused=error.message)
    memory, memory_range = _memory(asked, answer)
    return Prediction(
        memory=memory,
        memory_range=memory_range,
        seconds=answer.step.seconds,
        seconds_range=answer.step.range_seconds,
        fits=answer.fits,
        unknown=asked.unknown,
    )


def _memory(asked: Case, answer: Estimate) -> tuple[float, tuple[float, float]]:
    """The figure of the counter and the stage that a row names."""
    counter = asked.counter if asked.counter in COUNTERS else "device"
    stages = answer.memory.stages
    if asked.scope == "first":
        stage = stages[0]
    elif asked.scope == "last":
        stage = stages[-1]
    else:
        stage = max(stages, key=lambda each: int(getattr(each.peak_bytes, counter)))
    figure = float(getattr(stage.peak_bytes, counter))
    allocated = float(stage.peak_bytes.allocated)
    beyond = answer.memory.outside_bytes if counter == "device" else 0
    down, up = stage.slack_bytes
    if counter == "allocated":
        return figure, (figure - down, figure + up)
    worst = allocated * (1 + RESERVED_SHARE_WORST)
    return figure, (allocated - down + beyond, worst + up + beyond)
