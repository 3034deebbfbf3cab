"""Errors of many rows in a few figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.score.row import Row


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One row: a figure predicted and the same measured, or no answer.

    Attributes:
        row: the row.
        predicted: the figure; None where it was refused.
        measured: the figure.
        low: lower end of the prediction.
        high: upper end of the prediction.
    """

    row: Row
    predicted: float | None
    measured: float
    low: float = 0.0
    high: float = 0.0

    @property
    def error(self) -> float | None:
        """Signed error, predicted over measured less 1; None where there is no answer."""
        return None if self.predicted is None else self.predicted / self.measured - 1.0

    @property
    def is_inside(self) -> bool:
        """Whether what was measured lies in the predicted range."""
        return self.predicted is not None and self.low <= self.measured <= self.high


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors over rows. A row without an answer counts as an absolute error of 1.

    Attributes:
        n: rows answered.
        eligible: rows that could have been.
        coverage: the one over the other.
        mean_abs_error: over eligible rows.
        median_abs_error: likewise.
        p90_abs_error: likewise, the nearest rank.
        worst_abs_error: likewise.
        bias: mean signed error of the rows answered.
        share_under_by_5pct: of the rows answered, those predicted over 5 % too low.
        share_in_range: of the rows answered, those measured inside the predicted range.
        median_range_width: width of that range over the single figure, at the median.
    """

    n: int
    eligible: int
    coverage: float | None
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None
    worst_abs_error: float | None
    bias: float | None
    share_under_by_5pct: float | None
    share_in_range: float | None
    median_range_width: float | None


def errors(outcomes: Sequence[Outcome]) -> Errors:
    """Sum up the errors of some rows; None where there are no rows."""
    signed = [outcome.error for outcome in outcomes if outcome.error is not None]
    absolute = sorted(1.0 if o.error is None else abs(o.error) for o in outcomes)
    answered = [outcome for outcome in outcomes if outcome.predicted]
    widths = [(o.high - o.low) / o.predicted for o in answered if o.predicted]
    return Errors(
        n=len(signed),
        eligible=len(outcomes),
        coverage=len(signed) / len(outcomes) if outcomes else None,
        mean_abs_error=statistics.fmean(absolute) if absolute else None,
        median_abs_error=statistics.median(absolute) if absolute else None,
        p90_abs_error=_percentile(absolute, 0.9) if absolute else None,
        worst_abs_error=absolute[-1] if absolute else None,
        bias=statistics.fmean(signed) if signed else None,
        share_under_by_5pct=_share([error < -0.05 for error in signed]),
        share_in_range=_share([outcome.is_inside for outcome in answered]),
        median_range_width=statistics.median(widths) if widths else None,
    )


def balanced_accuracy(outcomes: Sequence[tuple[bool, bool | None]]) -> float | None:
    """The mean of two shares: of runs that fitted, and of runs that did not, those told so.

    None where all were of one kind. A refused row is told wrong.
    """
    shares = [
        _share([told is truth for measured, told in outcomes if measured is truth])
        for truth in (True, False)
    ]
    known = [share for share in shares if share is not None]
    return sum(known) / 2 if len(known) == 2 else None


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values."""
    return ordered[min(len(ordered) - 1, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def _share(tests: Sequence[bool]) -> float | None:
    return sum(tests) / len(tests) if tests else None
