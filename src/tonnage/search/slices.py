"""A group some plans at a time, with the pieces of their model at hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import is_array
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.ledger import StageLedger
from tonnage.plan import Resolved, Setting, alike, resolve
from tonnage.search.group import NUMERIC, Group
from tonnage.search.table import DECIDING, Table, View, single

CHUNK: Final = 16_384
"""Plans weighed at once: few enough for a column and what is made of it to stay in the cache."""

KEPT: Final = 8
"""Models whose tables are kept."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Some plans of a group.

    Attributes:
        where: which.
        setting: their setting, in columns.
        ledgers: every stage; stages that hold the same share one, that of the first of them.
    """

    where: slice
    setting: Setting
    ledgers: tuple[StageLedger, ...]

    def runs(self) -> tuple[tuple[StageLedger, int], ...]:
        """The ledger of each run of stages that hold the same, and how many they are."""
        found = [ledger for place, ledger in enumerate(self.ledgers) if ledger.stage.index == place]
        ends = [*(ledger.stage.index for ledger in found[1:]), len(self.ledgers)]
        return tuple((each, end - each.stage.index) for each, end in zip(found, ends, strict=True))


_tables: OrderedDict[int, tuple[Architecture, Table]] = OrderedDict()


def slices(architecture: Architecture, group: Group, cluster: Cluster) -> Iterator[Slice]:
    """A group, so many plans at a time.

    Raises:
        InputError: a choice of the group is impossible.
        NotModelledError: it asks for something that is not accounted for.
    """
    resolved = resolve(group.plan, architecture, cluster)
    table = table_of(architecture)
    rows = table.rows({name: single(group.columns[name]) for name in DECIDING})
    for start in range(0, len(group), CHUNK):
        where = slice(start, min(start + CHUNK, len(group)))
        columns = {name: single(group.columns[name][where]) for name in NUMERIC}
        setting = resolved.setting.columns(**columns)
        view = View(table, setting, rows[where] if is_array(rows) else rows)
        yield Slice(where=where, setting=setting, ledgers=_ledgers(view, resolved))


def prepare(architecture: Architecture, columns: Mapping[str, NDArray[np.int64]]) -> None:
    """Tell which plans will be asked for, so that their pieces are weighed all at once.

    Without it each group adds what it meets first, which takes longer.

    Args:
        architecture: what is trained.
        columns: the numbers in `tonnage.search.table.DECIDING`, of equal length.
    """
    table_of(architecture).rows({name: columns[name] for name in DECIDING})


def table_of(architecture: Architecture) -> Table:
    """The table of a model; the last few are kept."""
    key = id(architecture)
    if key not in _tables:
        _tables[key] = (architecture, Table(architecture))
        if len(_tables) > KEPT:
            _tables.popitem(last=False)
    _tables.move_to_end(key)
    return _tables[key][1]


def _ledgers(view: View, resolved: Resolved) -> tuple[StageLedger, ...]:
    alone = len(resolved.stages) == 1
    ledgers: list[StageLedger] = []
    for run in alike(resolved.stages):
        ledgers += [view.ledger(resolved.stages[run.start], alone=alone)] * len(run)
    return tuple(ledgers)
