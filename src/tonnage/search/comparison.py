"""Estimates side by side: what differs in what was asked, and in what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.errors import InputError
from tonnage.estimation import SCHEMA_VERSION

Answer = Mapping[str, Any]
"""An estimate as its JSON has it."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of every side.

    Attributes:
        name: what it is.
        unit: ``bytes``, ``seconds``, ``count``, ``share`` or ``text``.
        values: by side; None where a side has none.
    """

    name: str
    unit: str
    values: tuple[Any, ...]

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Each value over the first's, less one; None where that means nothing."""
        first = self.values[0]
        if self.unit == "text" or not isinstance(first, int | float) or first == 0:
            return tuple(None for _ in self.values)
        return tuple(None if value is None else value / first - 1 for value in self.values)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two or more estimates.

    Attributes:
        names: of the sides, as they were given.
        answers: their estimates.
        asked: where the models, clusters and plans differ.
        found: the figures.
    """

    names: tuple[str, ...]
    answers: tuple[Answer, ...]
    asked: tuple[Row, ...]
    found: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON takes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sides": [
                {"name": name, "estimate": answer}
                for name, answer in zip(self.names, self.answers, strict=True)
            ],
            "asked": [_row(row) for row in self.asked],
            "found": [_row(row) for row in self.found],
        }


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "unit": row.unit,
        "values": list(row.values),
        "over_first": list(row.ratios),
    }


def compare(names: Sequence[str], answers: Sequence[Answer]) -> Comparison:
    """Set estimates side by side.

    Args:
        names: what to call them.
        answers: the estimates, as their JSON has them.

    Raises:
        InputError: there are fewer than two.
    """
    if len(answers) < 2:
        raise InputError(
            field="SIDE",
            value=" ".join(names),
            problem="stands alone",
            accepted="two or more models, plans or clusters",
        )
    return Comparison(
        names=tuple(names),
        answers=tuple(answers),
        asked=tuple(row for row in _asked(answers) if len({*map(str, row.values)}) > 1),
        found=tuple(_found(answers)),
    )


def _asked(answers: Sequence[Answer]) -> Iterator[Row]:
    yield _text("model", [answer["model"]["name"] for answer in answers])
    for name in ("device", "gpus", "nodes", "gpus_per_node"):
        yield _text(name, [answer["cluster"][name] for answer in answers])
    fields = list(dict.fromkeys(name for answer in answers for name in answer["plan"]))
    for name in fields:
        yield _text(name, [answer["plan"].get(name) for answer in answers])


def _text(name: str, values: Sequence[object]) -> Row:
    return Row(name=name, unit="text", values=tuple(values))


def _found(answers: Sequence[Answer]) -> Iterator[Row]:
    memories = [answer["memory"] for answer in answers]
    steps = [answer["step"] for answer in answers]
    yield _text("fits", ["yes" if answer["fits"] else "no" for answer in answers])
    for counter in ("device", "reserved", "allocated"):
        peaks = tuple(memory["peak_bytes"][counter] for memory in memories)
        yield Row(name=f"peak, {counter}", unit="bytes", values=peaks)
    yield Row(
        name="headroom", unit="bytes", values=tuple(memory["headroom_bytes"] for memory in memories)
    )
    yield from _parts("bytes", [memory["categories"] for memory in memories])
    yield Row(name="step", unit="seconds", values=tuple(step["seconds"] for step in steps))
    yield from _parts("seconds", [step["breakdown"] for step in steps])
    for name in ("tokens_per_second", "tokens_per_second_per_gpu"):
        yield Row(name=name, unit="count", values=tuple(step[name] for step in steps))
    for name in ("mfu", "hfu"):
        yield Row(name=name, unit="share", values=tuple(step[name] for step in steps))
    runs = [answer.get("run") or {} for answer in answers]
    for name in ("days", "gpu_hours"):
        if any(runs):
            yield Row(name=name, unit="count", values=tuple(run.get(name) for run in runs))


def _parts(unit: str, parts: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Every part that any side has more than nothing of."""
    for name in dict.fromkeys(name for part in parts for name in part):
        values = tuple(part.get(name, 0) for part in parts)
        if any(values):
            yield Row(name=f"  {name}", unit=unit, values=values)
