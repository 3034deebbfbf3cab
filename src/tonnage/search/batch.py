"""Rows of degrees that share the number of stages, and what their parts cost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.ledger.layer import layer_input
from tonnage.search.away import Away
from tonnage.search.costs import Floats, Held, Room, Work, least
from tonnage.search.count import plans_of
from tonnage.search.layouts import Deck
from tonnage.search.legality import Columns, distinct
from tonnage.search.modes import AWAY, Mode
from tonnage.search.pieces import Parts
from tonnage.search.space import DEGREES, Space

Index = NDArray[np.intp]

WHOLE: Final = ("1f1b", "gpipe")
"""Schedules whose stages hold one piece of the model, and go through it in whole passes."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """All rows of one number of stages, with sequence parallelism or without.

    Attributes:
        space: the space that they are of.
        sp: whether sequence parallelism is on.
        exchange: how context-parallel ranks share keys and values.
        pp: pipeline stages.
        decks: the layouts of so many stages.
        rows: degrees, batch and accumulation.
        floor: the least seconds of a step of each row, whatever the layout.
        least: bytes of tensors that the fullest stage holds at the least, by row.
        size: legal plans of all its rows, of those left out for their states too.
    """

    space: Space
    sp: bool
    exchange: str
    pp: int
    decks: tuple[Deck, ...]
    rows: Columns
    floor: Floats
    least: Floats
    size: int

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of a plan that is legal with any of the rows."""
        return _fields(self.space, self.sp, self.exchange, self.decks)


@dataclass(frozen=True, kw_only=True)
class Material:
    """Some rows of a batch with all that bounds are made of.

    Attributes:
        rows: the rows.
        work: seconds of the parts, by row.
        room: bytes of the parts' activations, by row.
    """

    rows: Columns
    work: Work
    room: Room


def batches(space: Space, most: float = np.inf) -> list[Batch]:
    """Every batch of a space that has a row and a layout.

    Args:
        space: the space.
        most: bytes that a device has; rows whose states alone need more are counted, and left
            out.
    """
    found = []
    for exchange, sp in itertools.product(space.exchanges, space.sequence_parallel()):
        parts: list[_Part] = []
        for pp in space.pipelines:
            decks = space.decks(pp)
            rows = _rows(space, pp, sp, exchange, decks) if decks else {}
            if decks and len(rows["tp"]):
                size = plans_of(space, decks, rows)
                least = _least_bytes(space, _fields(space, sp, exchange, decks), pp, rows)
                kept = least <= most
                rows = {name: column[kept] for name, column in rows.items()}
                part = _Part(pp=pp, decks=decks, rows=rows, least=least[kept], size=size)
                parts.append(part)
        floors = _floors(space, sp, exchange, parts)
        found += [
            Batch(
                space=space,
                sp=sp,
                exchange=exchange,
                pp=part.pp,
                decks=part.decks,
                rows=part.rows,
                floor=floor,
                least=part.least,
                size=part.size,
            )
            for part, floor in zip(parts, floors, strict=True)
        ]
    return found


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A batch without its floors."""

    pp: int
    decks: tuple[Deck, ...]
    rows: Columns
    least: Floats
    size: int


def _least_bytes(space: Space, shared: dict[str, Any], pp: int, rows: Columns) -> Floats:
    """What the mean stage holds of each row: the fullest holds no less.

    How many replicas there are follows from the stages and tp, so that the states of few rows
    differ.
    """
    first, place = distinct([rows[name] for name in ("tp", "ep", "etp")])
    once = {name: column[first] for name, column in rows.items()}
    once["shard"] = once["dp"] * once["cp"]
    zero = max(space.zero_stages)
    fields = {**shared, "zero": zero, **space.aways(zero)[0].fields}
    states = Parts.of(space, fields, once, kept=False).held()
    counts = np.array(list(space.question.architecture.kinds().values()), dtype=float)
    embedding, head = states.ends
    resting = counts @ states.resting + embedding[0] + head[0]
    stepping = counts @ states.stepping + embedding[2] + head[2]
    alive = _least_alive(space, fields, pp, rows)
    least: Floats = np.maximum(resting[place] / pp + alive, stepping[place] / pp)
    return least


def _least_alive(space: Space, fields: dict[str, Any], pp: int, rows: Columns) -> Floats:
    """Activations of the mean stage, by row: of each micro-batch in flight a layer's input.

    A stage has as many in flight as there are stages from it to the last one, or all there are;
    no schedule has fewer.
    """
    if True in space.question.kept_away(AWAY):
        return np.zeros(len(rows["tp"]))
    whole = {**rows, "shard": rows["dp"] * rows["cp"]}
    setting = Parts.of(space, fields, whole, kept=False).setting
    few = np.minimum(rows["grad_acc"], pp)
    in_flight = few * (2 * pp - few + 1) / (2 * pp)
    alive: Floats = in_flight * np.asarray(layer_input(setting).bytes, dtype=np.float64)
    return alive


def material(batch: Batch, chosen: Index, modes: Sequence[Mode]) -> Material:
    """What the bounds of some rows of a batch are made of."""
    rows = {name: column[chosen] for name, column in batch.rows.items()}
    rows["shard"] = rows["dp"] * rows["cp"]
    kinds = _kinds(batch.space, batch.fields, rows)
    return Material(
        rows=rows,
        work=least([parts.work(modes) for parts in kinds]),
        room=least([parts.room(modes) for parts in kinds]),
    )


def states_of(batch: Batch, rows: Columns, zero: int, *, hsdp: bool, away: Away) -> Held:
    """Bytes of the parts' states, for rows with what they are sharded over."""
    fields = {**batch.fields, "zero": zero, **away.fields}
    if hsdp:
        fields["hsdp_shard"] = int(rows["shard"][0])
    return Parts.of(batch.space, fields, rows).held()


def _rows(space: Space, pp: int, sp: bool, exchange: str, decks: Sequence[Deck]) -> Columns:
    """Legal rows, of which some schedule has an order for the micro-batches."""
    rows = space.rows(pp, sp=sp, exchange=exchange)
    ordered = np.logical_or.reduce([deck.orders(rows["grad_acc"]) for deck in decks])
    return {name: column[ordered] for name, column in rows.items()}


def _kinds(
    space: Space, fields: dict[str, Any], rows: Columns, *, kept: bool = True
) -> list[Parts]:
    """The parts of some rows under each format that ZeRO stages have layers work in."""
    found: dict[tuple[str, bool, str, str], Parts] = {}
    for zero in space.zero_stages:
        parts = Parts.of(space, {**fields, "zero": zero}, rows, kept=kept)
        run = parts.setting
        found.setdefault((run.stream, run.casts, run.adapter_format, run.adapter_compute), parts)
    return list(found.values())


def _fields(space: Space, sp: bool, exchange: str, decks: Sequence[Deck]) -> dict[str, Any]:
    """1F1B takes any number of micro-batches, and parts of a model cost the same under all."""
    deck = next((deck for deck in decks if deck.vpp == 1), decks[0])
    return {
        **deck.plan_fields(0),
        "vpp": 1,
        "schedule": "1f1b",
        "sp": sp,
        "cp_comm": exchange,
        "zero": space.zero_stages[0],
        "loss": space.losses[0],
    }


def _floors(space: Space, sp: bool, exchange: str, parts: Sequence[_Part]) -> list[Floats]:
    """A floor for each row of each number of stages.

    A layer's seconds depend on few of the degrees: each combination is weighed once.
    """
    ends = np.cumsum([len(part.rows["tp"]) for part in parts])
    if not len(ends) or not ends[-1]:
        return [np.empty(0) for _ in parts]
    every = {n: np.concatenate([part.rows[n] for part in parts]) for n in parts[0].rows}
    first, place = distinct([every[name] for name in DEGREES])
    once = {name: column[first] for name, column in every.items()}
    once["shard"] = once["dp"] * once["cp"]
    decks = parts[int(np.searchsorted(ends, first[0], "right"))].decks
    kinds = _kinds(space, _fields(space, sp, exchange, decks), once, kept=False)
    schedules = {deck.schedule for part in parts for deck in part.decks}
    found = [each.microbatch(schedules) for each in kinds]
    shown = {
        schedule: np.minimum.reduce([each[schedule] for each in found])[place]
        for schedule in schedules
    }
    floors = []
    for end, part in zip(ends, parts, strict=True):
        fastest = np.minimum.reduce([shown[deck.schedule] for deck in part.decks])
        floors.append(_least_step(fastest[end - len(part.rows["tp"]) : end], part))
    return floors


def _least_step(whole: Floats, part: _Part) -> Floats:
    """A step's floor from one micro-batch's seconds on all stages together.

    The slowest stage is no faster than the mean; where stages are one piece of the model, and
    backward passes whole, one micro-batch passes every stage first.
    """
    least: Floats = part.rows["grad_acc"] * whole / part.pp
    if all(deck.schedule in WHOLE for deck in part.decks):
        least = np.maximum(least, whole)
    return least * (1 - 1e-9)
