"""The scoreboard of measured runs, as a terminal and a CSV file show it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.report.layout import console, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.score import Board, Scoreboard, Scored
    from tonnage.score.metrics import Errors

COLUMNS = (
    "family",
    "id",
    "memory_predicted_bytes",
    "memory_measured_bytes",
    "memory_error",
    "time_predicted_s",
    "time_measured_s",
    "time_error",
    "fits_predicted",
    "fits_measured",
    "refused",
    "not_understood",
)

REASONS_SHOWN = 12


def print_scoreboard(board: Scoreboard) -> None:
    """Memory, time, fits and choice by family; then what was refused or not understood."""
    screen = console()
    _errors(screen, "Memory", {n: b.memory for n, b in _parts(board).items()})
    _errors(screen, "Time of a step", {n: b.time for n, b in _parts(board).items()})
    _decisions(screen, _parts(board))
    reasons = Counter(refusal.reason for refusal in board.refused)
    _counted(screen, "Refused", "each counts as an error of 100%", reasons)
    _counted(screen, "Not understood", "words of recipes, by rows", Counter(board.unknown_words))


def _parts(board: Scoreboard) -> dict[str, Board]:
    return {**board.families, "all rows": board.pooled}


def _errors(screen: Console, title: str, rows: dict[str, Errors]) -> None:
    rows = {name: errors for name, errors in rows.items() if errors.eligible}
    if not rows:
        return
    heading(screen, title, "predicted over measured, less 1")
    names = (
        "rows",
        "answered",
        "median",
        "mean",
        "90%",
        "worst",
        "bias",
        "low by\n5%",
        "in\nrange",
    )
    listing(
        screen,
        [("", "left"), *((name, "right") for name in names)],
        [
            (
                name,
                str(e.eligible),
                _percent(e.coverage, 0),
                *(
                    _percent(figure)
                    for figure in (
                        e.median_abs_error,
                        e.mean_abs_error,
                        e.p90_abs_error,
                        e.worst_abs_error,
                    )
                ),
                _percent(e.bias, signed=True),
                _percent(e.share_under_by_5pct, 0),
                _percent(e.share_in_range, 0),
            )
            for name, e in rows.items()
        ],
    )


def _decisions(screen: Console, parts: dict[str, Board]) -> None:
    told = {name: part for name, part in parts.items() if part.fit.balanced_accuracy is not None}
    if told:
        heading(
            screen, "Fits", "the mean of the shares told right, of runs that fit and that do not"
        )
        facts(
            screen,
            [
                (
                    name,
                    _percent(part.fit.balanced_accuracy),
                    f"{part.fit.ok} ok, {part.fit.oom} oom",
                )
                for name, part in told.items()
            ],
        )
    chosen = {name: part.choice for name, part in parts.items() if part.choice.groups}
    if chosen:
        heading(screen, "Choice", "throughput lost by taking the plan ranked first")
        names = ("jobs", "mean", "median", "worst", "pairs", "ordered right")
        listing(
            screen,
            [("", "left"), *((name, "right") for name in names)],
            [
                (
                    name,
                    str(c.groups),
                    _percent(c.mean_regret),
                    _percent(c.median_regret),
                    _percent(c.worst_regret),
                    str(c.pairs),
                    _percent(c.pairwise_order),
                )
                for name, c in chosen.items()
            ],
        )


def _counted(screen: Console, title: str, detail: str, counts: Counter[str]) -> None:
    if not counts:
        return
    heading(screen, title, detail)
    shown = counts.most_common(REASONS_SHOWN)
    facts(screen, [(str(count), "", text) for text, count in shown])
    if len(counts) > len(shown):
        facts(screen, [("…", "", f"{len(counts) - len(shown)} more: see --json")])


def _percent(figure: float | None, digits: int = 1, *, signed: bool = False) -> str:
    if figure is None:
        return "-"
    return f"{figure:{'+' if signed else ''}.{digits}%}"


def write_rows(path: Path, scored: Sequence[Scored]) -> None:
    """Write predicted beside measured, row by row.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(_cells(item) for item in scored)
    except OSError as error:
        raise InputError(
            field="rows", value=str(path), problem=f"cannot be written: {error.strerror}"
        ) from None


def _cells(item: Scored) -> dict[str, object]:
    from tonnage.score import measured

    said = item.prediction
    cells: dict[str, object] = {
        "family": item.row.family,
        "id": item.row.name,
        "fits_predicted": said.fits,
        "fits_measured": measured.fits(item.row),
        "refused": said.refused,
        "not_understood": "; ".join(said.unknown),
    }
    for name, unit, outcome in (("memory", "bytes", item.memory), ("time", "s", item.time)):
        if outcome is not None:
            cells[f"{name}_predicted_{unit}"] = outcome.predicted
            cells[f"{name}_measured_{unit}"] = outcome.measured
            cells[f"{name}_error"] = outcome.error
    return cells
