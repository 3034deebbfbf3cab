"""Memory and time of the plans of a group, as columns."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import Number, where
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation import Limits
from tonnage.ledger import StageLedger
from tonnage.memory import StageMemory, outside, stage_memory
from tonnage.memory.reserved import reserved_bound
from tonnage.plan import Plan, Resolved, Setting, alike, resolve
from tonnage.search.group import NUMERIC, Group, Weighed
from tonnage.search.table import DECIDING, Table, View, single
from tonnage.timing.step import PARTS, step_time

CHUNK: Final = 16_384
"""Plans weighed at once: few enough for a column and what is made of it to stay in the cache."""

TABLES: Final = 8
"""Models whose tables are kept."""

_tables: OrderedDict[int, tuple[Architecture, Table]] = OrderedDict()


def plan_of(group: Group, index: int) -> Plan:
    """One plan of a group, as `tonnage.estimation.estimate` takes it."""
    numbers: dict[str, Any] = {name: int(group.columns[name][index]) for name in NUMERIC}
    shard = numbers.pop("shard")
    gbs = numbers["mbs"] * numbers["grad_acc"] * numbers["dp"]
    hsdp = None if group.plan.hsdp_shard is None else shard
    return dataclasses.replace(group.plan, **numbers, gbs=gbs, hsdp_shard=hsdp)


def evaluate(
    architecture: Architecture, group: Group, cluster: Cluster, limits: Limits | None = None
) -> Weighed:
    """Memory and time of every plan of a group.

    Args:
        architecture: what is trained.
        group: the plans.
        cluster: on what.
        limits: for the efficiency that the time assumes.

    Raises:
        InputError: a choice of the group is impossible, or a figure is not published.
        NotModelledError: it asks for something that is not accounted for.
    """
    resolved = resolve(group.plan, architecture, cluster)
    found = Weighed.empty(len(group))
    for start in range(0, len(group), CHUNK):
        part = slice(start, min(start + CHUNK, len(group)))
        setting, view = _viewed(architecture, resolved, group, part)
        ledgers = _ledgers(view, resolved)
        _weigh(setting, ledgers, cluster, found, part)
        timed = step_time(setting, ledgers, cluster, (limits or Limits()).efficiency)
        found.seconds[part] = timed.seconds
        for name in PARTS:
            found.parts[name][part] = timed.parts[name]
    return found


def prepare(architecture: Architecture, columns: dict[str, NDArray[np.int64]]) -> None:
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
        if len(_tables) > TABLES:
            _tables.popitem(last=False)
    _tables.move_to_end(key)
    return _tables[key][1]


def _viewed(
    architecture: Architecture, resolved: Resolved, group: Group, part: slice
) -> tuple[Setting, View]:
    """The setting of some plans of a group, and the pieces as they see them."""
    columns = {name: single(group.columns[name][part]) for name in NUMERIC}
    setting = resolved.setting.columns(**columns)
    table = table_of(architecture)
    return setting, View(table, setting, table.rows(columns))


def _ledgers(view: View, resolved: Resolved) -> tuple[StageLedger, ...]:
    """The ledger of every stage; stages that hold the same share one."""
    alone = len(resolved.stages) == 1
    ledgers: list[StageLedger] = []
    for run in alike(resolved.stages):
        ledgers += [view.ledger(resolved.stages[run.start], alone=alone)] * len(run)
    return tuple(ledgers)


def _weighed_stages(setting: Setting, ledgers: tuple[StageLedger, ...]) -> Iterator[StageMemory]:
    """The memory of the stages among which the worst is.

    Of stages that hold the same the first has the most micro-batches in flight, and nothing
    else differs; but where a stage keeps a buffer for each micro-batch, those in flight need
    fewer, and every stage is weighed.
    """
    each = setting.runtime.pipeline_buffers != "pair"
    for index, ledger in enumerate(ledgers):
        if each:
            stage = dataclasses.replace(ledger.stage, index=index)
            yield stage_memory(setting, dataclasses.replace(ledger, stage=stage))
        elif ledger.stage.index == index:
            yield stage_memory(setting, ledger)


def _weigh(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    cluster: Cluster,
    found: Weighed,
    part: slice,
) -> None:
    """The memory of the worst stage of some plans, written into their places."""
    beyond = outside(setting, cluster.device).bytes
    most: Number = -1
    names = ("allocated", "reserved", "worst_stage")
    worst: dict[str, Number] = dict.fromkeys(names, 0)
    for memory in _weighed_stages(setting, ledgers):
        reserved = reserved_bound(setting, memory)
        fuller = reserved > most
        most = where(fuller, reserved, most)
        own = (memory.allocated, reserved, memory.stage)
        worst = {n: where(fuller, value, worst[n]) for n, value in zip(names, own, strict=True)}
    for name, value in worst.items():
        getattr(found, name)[part] = value
    found.device[part] = worst["reserved"] + beyond
