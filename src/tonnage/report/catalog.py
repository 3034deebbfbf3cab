"""The catalog of models: its rows, and how a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonnage.quantity import format_count
from tonnage.report.layout import Justify, console, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.arch import Architecture

UNLIMITED = 1_000
"""Columns of an output that is no terminal: a line is never broken there."""


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model of the catalog in numbers.

    Attributes:
        name: its short name.
        parameters: all of them.
        active_parameters: those that one token meets.
        layers: decoder layers.
        hidden: width of the residual stream.
        heads: query heads of the first layer with attention; None where there is none.
        kv_heads: its key-value heads; None for latent attention.
        context: the context length that the config names; None where it names none.
        family: the config's ``model_type``.
        source: where the facts come from.
    """

    name: str
    parameters: int
    active_parameters: int
    layers: int
    hidden: int
    heads: int | None
    kv_heads: int | None
    context: int | None
    family: str
    source: str


def model_row(architecture: Architecture) -> ModelRow:
    """The row of an architecture."""
    from tonnage.arch import Attention, LatentAttention
    from tonnage.ledger import parameters

    count = parameters(architecture)
    mixers = (layer.mixer for layer in architecture.layers)
    mixer = next((m for m in mixers if isinstance(m, Attention | LatentAttention)), None)
    return ModelRow(
        name=architecture.name,
        parameters=count.total,
        active_parameters=count.active,
        layers=len(architecture.layers),
        hidden=architecture.hidden,
        heads=mixer.heads if mixer else None,
        kv_heads=mixer.kv_heads if isinstance(mixer, Attention) else None,
        context=architecture.max_positions,
        family=architecture.family,
        source=architecture.source,
    )


def print_models(models: Sequence[ModelRow], screen: Console | None = None) -> None:
    """Print the models, one a line."""
    columns: list[tuple[str, Justify]] = [
        ("name", "left"),
        ("params", "right"),
        ("active", "right"),
        ("layers", "right"),
        ("hidden", "right"),
        ("heads", "right"),
        ("context", "right"),
        ("family", "left"),
        ("source", "left"),
    ]
    rows = [
        (
            model.name,
            format_count(model.parameters),
            format_count(model.active_parameters),
            str(model.layers),
            str(model.hidden),
            _heads(model),
            "" if model.context is None else str(model.context),
            model.family,
            model.source,
        )
        for model in models
    ]
    _print(screen or _screen(), columns, rows)


def _heads(model: ModelRow) -> str:
    if model.heads is None:
        return "-"
    return f"{model.heads}/{model.kv_heads}" if model.kv_heads else f"{model.heads} mla"


def _screen() -> Console:
    screen = console()
    return screen if screen.is_terminal else console(width=UNLIMITED)


def _print(
    screen: Console, columns: list[tuple[str, Justify]], rows: Sequence[tuple[str, ...]]
) -> None:
    """Print a table; columns that the terminal has no room for go, from the right."""
    widths = [
        max(len(name), *(len(row[i]) for row in rows)) + 2 for i, (name, _) in enumerate(columns)
    ]
    kept = len(columns)
    while kept > 1 and sum(widths[:kept]) > screen.width:
        kept -= 1
    listing(screen, columns[:kept], [row[:kept] for row in rows])
