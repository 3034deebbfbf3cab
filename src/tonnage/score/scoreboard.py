"""Many rows -> the scoreboard: by family, and over all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tonnage.score import measured
from tonnage.score.choice import Choice, choice
from tonnage.score.metrics import Errors, Outcome, balanced_accuracy, errors
from tonnage.score.predict import Prediction, predict
from tonnage.score.row import Row

DEGREES = ("tp", "pp", "cp", "ep")


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A row and its prediction."""

    row: Row
    prediction: Prediction

    @property
    def memory(self) -> Outcome | None:
        """Peak memory, where it was measured."""
        truth = measured.memory_bytes(self.row)
        if truth is None:
            return None
        said = self.prediction
        return Outcome(
            row=self.row,
            predicted=None if said.refused else said.memory,
            measured=truth,
            low=said.memory_range[0],
            high=said.memory_range[1],
        )

    @property
    def time(self) -> Outcome | None:
        """Time of a step, where it was measured."""
        truth = measured.step_seconds(self.row)
        if truth is None:
            return None
        said = self.prediction
        return Outcome(
            row=self.row,
            predicted=None if said.refused else said.seconds,
            measured=truth,
            low=said.seconds_range[0],
            high=said.seconds_range[1],
        )


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Whether runs fit, over those that did and those that did not."""

    ok: int
    oom: int
    balanced_accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Board:
    """The figures of one family, or of all rows."""

    memory: Errors
    time: Errors
    fit: Fit
    choice: Choice
    splits: dict[str, dict[str, dict[str, Errors]]]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A row without an answer."""

    row: str
    family: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """The whole answer.

    Attributes:
        families: the figures of each file, by its stem.
        pooled: the figures over all rows.
        refused: eligible rows without an answer, and why.
        unknown_words: words of recipes that were not understood, and how many rows have them.
    """

    families: dict[str, Board]
    pooled: Board
    refused: tuple[Refusal, ...]
    unknown_words: dict[str, int]


def score(
    rows: Iterable[Row],
    seen: Callable[[], None] = lambda: None,
    *,
    measured_network: bool = False,
) -> list[Scored]:
    """Predict every row that can be compared.

    Args:
        rows: measured rows.
        seen: called after each row, for a progress bar.
        measured_network: what a run measured of its own network may be used as an input.
    """
    scored = []
    for row in rows:
        questions = (measured.memory_bytes, measured.step_seconds, measured.fits)
        if any(question(row) is not None for question in questions):
            found = predict(row, measured_network=measured_network)
            scored.append(Scored(row=row, prediction=found))
        seen()
    return scored


def scoreboard(scored: Sequence[Scored]) -> Scoreboard:
    """Sum up scored rows."""
    families: dict[str, list[Scored]] = defaultdict(list)
    for item in scored:
        families[item.row.family].append(item)
    words = Counter(word for item in scored for word in item.prediction.unknown)
    return Scoreboard(
        families={name: _board(items) for name, items in families.items()},
        pooled=_board(scored),
        refused=tuple(
            Refusal(row=item.row.name, family=item.row.family, reason=item.prediction.refused)
            for item in scored
            if item.prediction.refused
        ),
        unknown_words=dict(words.most_common()),
    )


def _board(items: Sequence[Scored]) -> Board:
    memory, time = _outcomes(items)
    told = [
        (truth, item.prediction.fits)
        for item in items
        if (truth := measured.fits(item.row)) is not None
    ]
    return Board(
        memory=errors(memory),
        time=errors(time),
        fit=Fit(
            ok=sum(truth for truth, _ in told),
            oom=sum(not truth for truth, _ in told),
            balanced_accuracy=balanced_accuracy(told),
        ),
        choice=choice(time),
        splits=_splits(items),
    )


def _outcomes(items: Iterable[Scored]) -> tuple[list[Outcome], list[Outcome]]:
    kept = list(items)
    memory = [item.memory for item in kept]
    time = [item.time for item in kept]
    return [o for o in memory if o is not None], [o for o in time if o is not None]


def _splits(items: Sequence[Scored]) -> dict[str, dict[str, dict[str, Errors]]]:
    """The same errors by kind of model, by GPU and by degree."""

    def kind(row: Row) -> str:
        return "moe" if row.number("experts") else "dense"

    keys: dict[str, Callable[[Row], str]] = {"model": kind, "gpu": lambda row: row.text("gpu")}
    for degree in DEGREES:
        keys[degree] = lambda row, degree=degree: row.text(degree) or "1"  # type: ignore[misc]
    splits: dict[str, dict[str, dict[str, Errors]]] = {}
    for name, key in keys.items():
        parts: dict[str, list[Scored]] = defaultdict(list)
        for item in items:
            parts[key(item.row)].append(item)
        splits[name] = {}
        for value in sorted(parts):
            memory, time = _outcomes(parts[value])
            splits[name][value] = {"memory": errors(memory), "time": errors(time)}
    return splits
