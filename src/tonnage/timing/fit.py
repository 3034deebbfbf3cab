"""Least squares of a few positive constants, in logarithms, with how well each is determined.

A constant that acts on nothing that was measured must not come back as a number that looks
like one: each has a standard error from the data alone, and what the data do not determine
keeps the value that it started from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Predict: TypeAlias = Callable[[Mapping[str, float]], Any]
"""Constants by name -> one predicted value for each measurement, over 0."""

DETERMINED: Final = 0.5
"""Largest relative standard error of a constant that counts as determined."""

PRIOR: Final = 1.5
"""Standard deviation, in logarithms, of where a constant starts: a factor of 4.5 either way.
It keeps what the data say nothing of in its place, and gives way to any data."""

ROUNDS: Final = 40
FIRST_ROUNDS: Final = 2
"""Rounds of the search among all constants, before those that the data do not determine go."""

STEP: Final = 0.02
"""Relative step of the numerical derivatives: over the small jumps of tiles and waves."""

OUTLIER: Final = 2.0
"""Residuals past so many median ones count linearly and not squared (Huber, 1964)."""

NEGLIGIBLE: Final = 1e-4
"""A constant that moves every prediction by less than this of its own change acts on none."""


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A constant to be fitted.

    Attributes:
        name: its name.
        start: where the search begins, and what it keeps if the data do not determine it.
        least: the smallest value.
        most: the largest.
    """

    name: str
    start: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A constant after the fit.

    Attributes:
        name: its name.
        value: the fitted value, or the start where the data do not determine it.
        error: relative standard error from the data alone; infinite where they say nothing.
    """

    name: str
    value: float
    error: float

    @property
    def determined(self) -> bool:
        """Whether the data say what it is."""
        return self.error <= DETERMINED


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The outcome.

    Attributes:
        constants: every unknown, in order.
        before: mean relative error of the predictions from the starts, of logarithms, so that
            twice and half are as far off.
        after: the same from the fitted constants.
        rows: measurements.
    """

    constants: tuple[Fitted, ...]
    before: float
    after: float
    rows: int

    @property
    def values(self) -> dict[str, float]:
        """Every constant by name."""
        return {each.name: each.value for each in self.constants}


def fit(
    unknowns: Sequence[Unknown],
    predict: Predict,
    measured: Sequence[float] | Vector,
    seen: Callable[[], None] = lambda: None,
) -> Fit:
    """Constants whose predictions lie nearest to what was measured, in logarithms.

    The worst determined constant is put back to its start, one after another, until the data
    determine the rest; those are then fitted without it.

    Args:
        unknowns: the constants.
        predict: the model.
        measured: one value for each prediction, over 0.
        seen: called after each evaluation of the model, for a progress bar.
    """
    problem = _Problem(predict, np.log(np.asarray(measured, dtype=np.float64)), seen)
    starts = {each.name: each.start for each in unknowns}
    first = _Search(problem, unknowns, starts).run(FIRST_ROUNDS)
    errors, kept = _sorted_out(first)
    values = dict(starts)
    while kept:
        again = _Search(problem, kept, starts)
        again.position = np.log([first.values()[each.name] for each in kept])
        values = again.run(ROUNDS).values()
        found = {e.name: float(x) for e, x in zip(kept, again.errors(), strict=True)}
        errors.update(found)
        worst = max(found, key=lambda name: found[name])
        if found[worst] <= DETERMINED:
            break
        kept = [each for each in kept if each.name != worst]
        values = dict(starts)
    return Fit(
        constants=tuple(
            Fitted(name=name, value=float(values[name]), error=float(errors[name]))
            for name in starts
        ),
        before=problem.mean_error(starts),
        after=problem.mean_error(values),
        rows=problem.target.size,
    )


def _sorted_out(search: _Search) -> tuple[dict[str, float], list[Unknown]]:
    """Every constant's error, and the constants that the data determine without the others.

    The error of one that goes is that beside all that were still there.
    """
    residuals, slopes = search.linear()
    errors: dict[str, float] = {}
    kept = list(range(len(search.unknowns)))
    while kept:
        found = standard_errors(residuals, slopes[:, kept])
        worst = int(np.argmax(found))
        errors.update({search.unknowns[i].name: float(e) for i, e in zip(kept, found, strict=True)})
        if found[worst] <= DETERMINED:
            break
        del kept[worst]
    return errors, [search.unknowns[index] for index in kept]


def standard_errors(residuals: Vector, slopes: Vector) -> Vector:
    """Standard errors of constants, in logarithms, from the data alone.

    Args:
        residuals: of the best fit, one for each measurement.
        slopes: their derivatives, a column for each constant.
    """
    freedom = max(residuals.size - slopes.shape[1], 1)
    weights = _weights(residuals)
    scale = max(float(np.sum(weights * residuals**2)) / freedom, 1e-12)
    _, sizes, ways = np.linalg.svd(slopes * np.sqrt(weights)[:, None], full_matrices=True)
    sizes = np.pad(sizes, (0, len(ways) - len(sizes)))
    variance = np.zeros(len(ways))
    for size, way in zip(sizes, ways, strict=True):
        if size > 1e-6 * sizes[0]:
            variance += scale * way**2 / size**2
        else:  # a direction in which nothing that was measured changes
            variance[np.abs(way) > 1e-3] = math.inf
    variance[np.max(np.abs(slopes), axis=0, initial=0.0) < NEGLIGIBLE] = math.inf
    errors: Vector = np.sqrt(variance)
    return errors


def _reference(residuals: Vector) -> float:
    """A standard deviation that outliers do not widen: of the median residual."""
    return max(float(np.median(np.abs(residuals))) / 0.6745, 1e-3)


def _weights(residuals: Vector) -> Vector:
    near = OUTLIER * _reference(residuals)
    weights: Vector = np.minimum(1.0, near / np.maximum(np.abs(residuals), 1e-12))
    return weights


class _Problem:
    """The model and the logarithms that it should give."""

    def __init__(self, predict: Predict, target: Vector, seen: Callable[[], None]) -> None:
        self._predict, self.target, self._seen = predict, target, seen

    def residuals(self, values: Mapping[str, float]) -> Vector:
        """Logarithms of predicted over measured."""
        found = np.log(np.asarray(self._predict(values), dtype=np.float64)) - self.target
        self._seen()
        return np.asarray(found, dtype=np.float64)

    def mean_error(self, values: Mapping[str, float]) -> float:
        """Mean relative error, in which twice and half are as far off."""
        return float(np.expm1(np.mean(np.abs(self.residuals(values)))))


class _Search:
    """Levenberg and Marquardt's search over logarithms, between bounds."""

    def __init__(
        self, problem: _Problem, unknowns: Sequence[Unknown], fixed: Mapping[str, float]
    ) -> None:
        self._problem, self.unknowns, self._fixed = problem, unknowns, fixed
        self._low = np.log([each.least for each in unknowns])
        self._high = np.log([each.most for each in unknowns])
        self._start = np.log([each.start for each in unknowns])
        self.position = self._start.copy()
        self._idle = np.zeros(len(unknowns), dtype=bool)

    def values(self, position: Vector | None = None) -> dict[str, float]:
        """The constants at a position, by name, with those that do not move."""
        place = np.exp(self.position if position is None else position)
        return {
            **self._fixed,
            **{each.name: float(v) for each, v in zip(self.unknowns, place, strict=True)},
        }

    def run(self, rounds: int) -> _Search:
        """Search until nothing improves."""
        damping = 1e-2
        residuals = self._problem.residuals(self.values())
        for _ in range(rounds):
            slopes = self._slopes(residuals)
            improved = False
            while damping < 1e6 and not improved:
                place = self._moved(residuals, slopes, damping)
                trial = self._problem.residuals(self.values(place))
                improved = self._cost(trial, place) < self._cost(residuals, self.position)
                damping *= 0.3 if improved else 5.0
            if not improved:
                break
            shift = float(np.max(np.abs(place - self.position), initial=0.0))
            residuals, self.position = trial, place
            if shift < 1e-4:
                break
        return self

    def errors(self) -> Vector:
        """Relative standard errors from the data alone."""
        residuals = self._problem.residuals(self.values())
        return standard_errors(residuals, self._slopes(residuals))

    def linear(self) -> tuple[Vector, Vector]:
        """What is left after one more step along the slopes, and the slopes."""
        residuals = self._problem.residuals(self.values())
        slopes = self._slopes(residuals)
        step, *_ = np.linalg.lstsq(slopes, residuals, rcond=1e-6)
        return residuals - slopes @ step, slopes

    def _slopes(self, residuals: Vector) -> Vector:
        """Derivatives by each constant; those that did nothing once are not asked again."""
        slopes = np.zeros((residuals.size, len(self.unknowns)))
        for index in np.flatnonzero(~self._idle):
            place = self.position.copy()
            step = STEP if place[index] + STEP <= self._high[index] else -STEP
            place[index] += step
            slopes[:, index] = (self._problem.residuals(self.values(place)) - residuals) / step
            self._idle[index] = bool(np.max(np.abs(slopes[:, index])) < NEGLIGIBLE)
        return slopes

    def _moved(self, residuals: Vector, slopes: Vector, damping: float) -> Vector:
        weights = _weights(residuals)
        scale = max(float(np.median(np.abs(residuals))), 1e-4)
        prior = (scale / PRIOR) ** 2
        square: Vector = slopes.T @ (weights[:, None] * slopes)
        square += np.diag(prior + damping * (np.diag(square) + 1e-9))
        pull = slopes.T @ (weights * residuals) + prior * (self.position - self._start)
        place: Vector = self.position - np.linalg.solve(square, pull)
        return np.clip(place, self._low, self._high)

    def _cost(self, residuals: Vector, place: Vector) -> float:
        scale = max(float(np.median(np.abs(residuals))), 1e-4)
        size = np.abs(residuals)
        near = OUTLIER * _reference(residuals)
        data = np.where(size <= near, size**2, 2 * near * size - near**2)
        prior = (scale / PRIOR) ** 2 * (place - self._start) ** 2
        return float(np.sum(data) + np.sum(prior))
