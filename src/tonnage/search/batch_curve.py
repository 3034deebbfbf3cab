"""Step time and throughput against the batch: a fixed cost, and a cost for each sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import Estimate, Limits, estimate
from tonnage.plan import Plan

KNEE: Final = 0.9
"""Share of the best throughput that is reached at the knee: from there on twice the batch gains
about 5 %."""

MOST_DOUBLINGS: Final = 14
GLOBAL_DOUBLINGS: Final = 8


@dataclass(frozen=True, kw_only=True)
class BatchPoint:
    """A step with one batch.

    Attributes:
        mbs: sequences in a micro-batch.
        grad_acc: micro-batches in a step on one rank.
        gbs: sequences in a step over all ranks.
        seconds: of the step.
        tokens_per_second: over all devices.
        peak_bytes: of the worst rank's device.
        fits: whether that is within its capacity.
    """

    mbs: int
    grad_acc: int
    gbs: int
    seconds: float
    tokens_per_second: float
    peak_bytes: int
    fits: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """Step time as ``fixed + per_sample · batch``, by least squares.

    Attributes:
        fixed: seconds that a step takes whatever its batch.
        per_sample: seconds that each sequence of the batch adds.
        error: largest relative distance of a point from the line.
    """

    fixed: float
    per_sample: float
    error: float


@dataclass(frozen=True, kw_only=True)
class BatchCurve:
    """Both curves of one plan.

    Attributes:
        answer: the estimate of the plan itself.
        micro: by micro-batch, with as many of them as the plan has; to the first that does not
            fit, the largest that does among them.
        micro_line: their step time over mbs, of those that fit; None: fewer than two fit.
        micro_knee: the smallest mbs that reaches `KNEE` of the best; None: none fits.
        largest_mbs: the largest micro-batch that fits; None: none does.
        whole: by global batch, with the plan's mbs.
        line: their step time over gbs.
        knee: the smallest global batch that reaches `KNEE` of what an endless one would.
    """

    answer: Estimate
    micro: tuple[BatchPoint, ...]
    micro_line: Line | None
    micro_knee: int | None
    largest_mbs: int | None
    whole: tuple[BatchPoint, ...]
    line: Line
    knee: int

    def to_dict(self) -> dict[str, Any]:
        """Both curves as JSON takes them: without the whole answer."""
        return {
            "plan": dataclasses.asdict(self.answer.plan),
            "capacity_bytes": self.answer.memory.capacity_bytes,
            "micro_batch": {
                "points": [dataclasses.asdict(each) for each in self.micro],
                "line": None if self.micro_line is None else dataclasses.asdict(self.micro_line),
                "knee_mbs": self.micro_knee,
                "largest_mbs": self.largest_mbs,
            },
            "global_batch": {
                "points": [dataclasses.asdict(each) for each in self.whole],
                "line": dataclasses.asdict(self.line),
                "knee_gbs": self.knee,
            },
        }


def batch_curve(
    architecture: Architecture, plan: Plan, cluster: Cluster, limits: Limits | None = None
) -> BatchCurve:
    """Weigh a plan with other micro-batches and other global batches.

    Args:
        architecture: what is trained.
        plan: the degrees that stay.
        cluster: on what.
        limits: as for an estimate.

    Raises:
        InputError: the plan itself cannot run.
    """
    weigh = _Weigh(architecture, plan, cluster, limits)
    micro = sorted(_micro(weigh), key=lambda point: point.mbs)
    whole = tuple(_whole(weigh))
    fitting = [point for point in micro if point.fits]
    best = max((point.tokens_per_second for point in fitting), default=0.0)
    line = _line([point.gbs for point in whole], [point.seconds for point in whole])
    return BatchCurve(
        answer=weigh.answer,
        micro=tuple(micro),
        micro_line=_line([p.mbs for p in fitting], [p.seconds for p in fitting])
        if len(fitting) > 1
        else None,
        micro_knee=next((p.mbs for p in fitting if p.tokens_per_second >= KNEE * best), None),
        largest_mbs=max((point.mbs for point in fitting), default=None),
        whole=whole,
        line=line,
        knee=_knee(line, whole[0].gbs // whole[0].grad_acc),
    )


class _Weigh:
    """Estimates one plan under other batches."""

    def __init__(
        self, architecture: Architecture, plan: Plan, cluster: Cluster, limits: Limits | None
    ) -> None:
        self._architecture, self._cluster, self._limits = architecture, cluster, limits
        self.answer = estimate(architecture, plan, cluster, limits)
        self.plan = self.answer.plan

    def __call__(self, mbs: int, grad_acc: int) -> BatchPoint:
        changed = dataclasses.replace(self.plan, mbs=mbs, grad_acc=grad_acc, gbs=None)
        answer = estimate(self._architecture, changed, self._cluster, self._limits)
        return BatchPoint(
            mbs=mbs,
            grad_acc=grad_acc,
            gbs=answer.plan.gbs or 1,
            seconds=answer.step.seconds,
            tokens_per_second=answer.step.tokens_per_second,
            peak_bytes=answer.memory.peak_bytes.device,
            fits=answer.fits,
        )


def _micro(weigh: _Weigh) -> Iterator[BatchPoint]:
    """Doubled micro-batches to the first that does not fit, and the largest that does."""
    low, high = 0, 0
    grad_acc = weigh.plan.grad_acc or 1
    for doubling in range(MOST_DOUBLINGS):
        point = weigh(2**doubling, grad_acc)
        yield point
        if not point.fits:
            high = point.mbs
            break
        low = point.mbs
    found: BatchPoint | None = None
    while high - low > 1:
        middle = (low + high) // 2
        point = weigh(middle, grad_acc)
        low, high = (middle, high) if point.fits else (low, middle)
        found = point if point.fits else found
    if found is not None:
        yield found


def _whole(weigh: _Weigh) -> Iterator[BatchPoint]:
    """Doubled numbers of micro-batches: as many as stages at least where chunks interleave."""
    unit = weigh.plan.pp if weigh.plan.vpp > 1 else 1
    for doubling in range(GLOBAL_DOUBLINGS + 1):
        try:
            yield weigh(weigh.plan.mbs, unit * 2**doubling)
        except InputError:  # fused steps in backward leave no gradients to accumulate
            if not doubling:
                raise
            return


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    # Relative distances count: a small step is as much of a step as a large one.
    rows = np.stack([np.ones_like(x), x], axis=1) / y[:, None]
    (fixed, per_sample), *_ = np.linalg.lstsq(rows, np.ones_like(y), rcond=None)
    error = float(np.max(np.abs((fixed + per_sample * x) / y - 1.0)))
    return Line(fixed=float(fixed), per_sample=float(per_sample), error=error)


def _knee(line: Line, unit: int) -> int:
    """The batch at which ``B / (fixed + per_sample·B)`` reaches the share, in whole units."""
    least = KNEE / (1.0 - KNEE) * max(line.fixed, 0.0) / line.per_sample
    return max(1, -int(-least // unit)) * unit
