"""Plans that a search still has to weigh, and what their floors are looked up in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.search.away import Away
from tonnage.search.batch import Batch, Index, Material
from tonnage.search.costs import Floats, Held
from tonnage.search.layouts import Deck
from tonnage.search.legality import Columns
from tonnage.search.modes import Mode
from tonnage.search.pairs import Pairs

PAIRS: Final = 400_000
"""Layouts with rows that are bounded at once."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a group of plans shares.

    Attributes:
        batch: number of stages, and sequence parallelism.
        deck: the pipeline.
        layout: which of its layouts.
        mode: what is recomputed.
        zero: ZeRO stage.
        hsdp: whether parameters are sharded over a part of the replicas.
        loss: how the cross-entropy is computed.
        away: what of the states lies in host memory.
    """

    batch: Batch
    deck: Deck
    layout: int
    mode: Mode
    zero: int
    hsdp: bool
    loss: str
    away: Away

    def fields(self, rows: Columns) -> dict[str, Any]:
        """The fields of a plan that it decides."""
        return {
            **self.deck.plan_fields(self.layout),
            **self.mode,
            "sp": self.batch.sp,
            "cp_comm": self.batch.exchange,
            "zero": self.zero,
            "hsdp_shard": int(rows["shard"][0]) if self.hsdp else None,
            "loss": self.loss,
            **self.away.fields,
        }


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Plans of one group that no bound has excluded.

    Attributes:
        choice: what they share.
        rows: their numbers.
        seconds: floors of a step.
        device: floors of bytes, as a closed bound has them.
        doubtful: which of them only that bound makes too large (`tonnage.search.doubtful`).
    """

    choice: Choice
    rows: Columns
    seconds: Floats
    device: Floats
    doubtful: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class States:
    """States of some rows under one ZeRO stage, with all that they can be sharded over."""

    zero: int
    away: Away
    hsdp: bool
    rows: Columns
    base: Index
    held: Held

    def spread(self, pairs: Pairs, among: Index) -> tuple[Pairs, Index]:
        """Some of the pairs with every shard of their row, and which pair each comes from."""
        order = np.argsort(self.base, kind="stable")
        start = np.searchsorted(self.base[order], pairs.row[among], "left")
        count = np.searchsorted(self.base[order], pairs.row[among], "right") - start
        origin = np.repeat(among, count)
        within = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)
        shard = order[np.repeat(start, count) + within]
        return Pairs(layout=pairs.layout[origin], row=pairs.row[origin], shard=shard), origin

    def split(
        self,
        choice: Callable[..., Choice],
        pairs: Pairs,
        seconds: Floats,
        device: Floats,
        doubtful: NDArray[np.bool_],
    ) -> Iterator[Candidates]:
        """Pairs with their floors as candidates, a group for each layout."""
        for layout in np.unique(pairs.layout):
            mine = pairs.layout == layout
            shard = pairs.shard[mine]
            yield Candidates(
                choice=choice(layout=int(layout), zero=self.zero, hsdp=self.hsdp, away=self.away),
                rows={name: column[shard] for name, column in self.rows.items()},
                seconds=seconds[mine],
                device=device[mine],
                doubtful=doubtful[mine],
            )


@dataclass(frozen=True, kw_only=True)
class Look:
    """One pipeline with the rows that are looked at."""

    batch: Batch
    deck: Deck
    stuff: Material
    states: list[States]
    modes: tuple[Mode, ...]


def parts_of(deck: Deck, rows: int, *, quick: bool) -> Iterator[Deck]:
    """The layouts that have a name; or all, as many at a time as can be bounded at once."""
    if quick:
        named = sum("account_for_loss" in fields for fields in deck.fields)
        if named or len(deck):
            yield deck.take(slice(0, max(named, min(len(deck), 4))))
        return
    size = max(1, PAIRS // max(rows, 1))
    for start in range(0, len(deck), size):
        yield deck.take(slice(start, start + size))
