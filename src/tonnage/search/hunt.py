"""The search of one cluster: all of the space is bounded, and what that leaves is weighed.

Rows of degrees come first, the most promising before the others, with the few layouts that
have a name and the few ways to recompute that have no depth: plans that are nearly the best.
Then all of the space is gone through, layout by layout and depth by depth. A plan is left out
only where its floors show that it cannot be among the best of its structure, nor on the frontier.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.estimation.estimate import usable_bytes
from tonnage.memory.outside import reserved_bytes
from tonnage.plan import resolve
from tonnage.search.batch import Batch, Index, batches, material, states_of
from tonnage.search.bounds import Bounds
from tonnage.search.candidates import Candidates, Choice, Look, States, parts_of
from tonnage.search.costs import Floats
from tonnage.search.doubtful import Doubt, last_replayed
from tonnage.search.evaluate import evaluate
from tonnage.search.group import Group, Weighed
from tonnage.search.layouts import kind_prefix
from tonnage.search.legality import Columns, distinct, exchanged
from tonnage.search.modes import NONE, Mode, modes
from tonnage.search.pairs import Pairs
from tonnage.search.pieces import plan_of_row
from tonnage.search.plainer import plainness
from tonnage.search.rank import Found, Frontier, Ranking, Structure
from tonnage.search.slices import prepare
from tonnage.search.space import Space
from tonnage.search.table import DECIDING

STRUCTURAL: Final = ("tp", "cp", "ep")
"""The degrees that, with pp, make two plans structurally different."""

SEEDS: Final = 1024
"""Rows that are looked at first."""

Column = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """Every plan that was weighed: its group, seconds and device bytes, and whether it is good."""

    group: int
    seconds: Floats
    device: NDArray[np.int64]
    good: NDArray[np.bool_]


class Hunt:
    """The search of one cluster."""

    def __init__(
        self, space: Space, cluster: int, ranking: Ranking, note: Callable[[float], None]
    ) -> None:
        """Begin with an empty frontier.

        Args:
            space: the legal plans on the cluster.
            cluster: which of the question's it is.
            ranking: the best plans so far, on this cluster and others.
            note: is told the share of the work that is done.
        """
        self.space = space
        self.cluster = cluster
        self.ranking = ranking
        self.frontier = Frontier()
        self.groups: list[Group] = []
        self.cloud: list[Cloud] = []
        self.doubts: list[Doubt] = []
        self.batches: list[Batch] = []
        self.capacity = usable_bytes(space.cluster, space.question.limits)
        self.size = 0
        self._most = float(self.capacity) if space.question.fitting else np.inf
        self.longest = space.question.longest_step(space.cluster)
        self._note = note
        self._prefix = kind_prefix(space.question.architecture)
        self._share = (
            1.0 if space.runtime.reserved == "replay" else float(reserved_bytes(10**9)) / 1e9
        )
        self._headroom = space.question.objective == "headroom"

    def run(self) -> None:
        """Weigh or exclude every plan of the space.

        First some good plan is found; then the best among layouts with a name and modes without
        depth, which is close to the best of all; then all of the space is gone through.
        """
        every = batches(self.space, self._most / self._share)
        self.size = sum(batch.size for batch in every)
        self.batches = found = [batch for batch in every if len(batch.floor)]
        if found:
            found.sort(key=lambda batch: float(batch.floor.min()))
            self._rough(found)
            self._sweep(found)
            self._exchange()

    def _rough(self, found: Sequence[Batch]) -> None:
        """Weigh plans whose layouts have a name and whose modes no depth, the fastest rows first.

        A few rows at first, then more and more: what the first ones show excludes later ones.
        """
        floors = np.concatenate([batch.floor for batch in found])
        number = np.repeat(np.arange(len(found)), [len(batch.floor) for batch in found])
        first = np.searchsorted(number, np.arange(len(found)))
        order = np.argsort(floors, kind="stable")
        start, size = 0, SEEDS
        while start < len(order):
            chosen = order[start : start + size]
            parts = []
            for which in np.unique(number[chosen]):
                mine = chosen[number[chosen] == which] - first[which]
                reached = self._in_reach(found[which], mine)
                if reached.any():
                    parts.append((found[which], mine[reached]))
            if parts:
                self._prepare(parts)
                waiting = [c for part in parts for c in self.candidates(*part, quick=True)]
                self._weigh(waiting)
            elif floors[chosen[0]] > max(self._span(), self.longest) and not self._headroom:
                return
            self._note(0.5 * start / len(order))
            start, size = start + size, size * 2

    def _sweep(self, found: Sequence[Batch]) -> None:
        """Bound all of the space, and weigh what the bounds leave, pipeline by pipeline."""
        parts = [(batch, np.arange(len(batch.floor))) for batch in found]
        parts = [(batch, rows[self._in_reach(batch, rows)]) for batch, rows in parts]
        self._prepare(parts)
        for place, (batch, rows) in enumerate(parts):
            self._note(0.5 + 0.5 * place / len(parts))
            mine = rows[self._in_reach(batch, rows)]
            for look in self._looks(batch, mine, quick=False):
                self._weigh(list(self._of_deck(look)))

    def _exchange(self) -> None:
        """Weigh the best plans with the other ways to share keys and values, too."""
        for _, found in self.ranking.top():
            if found.cluster != self.cluster:
                continue
            group, row = self.groups[found.group], slice(found.row, found.row + 1)
            columns = {name: column[row] for name, column in group.columns.items()}
            for exchange in self.space.other_exchanges if columns["cp"][0] > 1 else ():
                if exchanged(columns, exchange, self.space.question.architecture).all():
                    plan = dataclasses.replace(group.plan, cp_comm=exchange)  # type: ignore[arg-type]
                    self._rank_all(Group(plan=plan, columns=columns))

    def _prepare(self, parts: Sequence[tuple[Batch, Index]]) -> None:
        """Have the parts of some rows weighed all at once, and not batch by batch."""
        prepare(
            self.space.question.architecture,
            {
                name: np.concatenate([batch.rows[name][mine] for batch, mine in parts])
                for name in DECIDING
            },
        )

    def _in_reach(self, batch: Batch, chosen: Index) -> NDArray[np.bool_]:
        """Which rows of a batch could make the top or the frontier."""
        floor, least = batch.floor[chosen], batch.least[chosen] * self._share
        limits = self._limits(batch.pp, {n: c[chosen] for n, c in batch.rows.items()})
        return self._adds(floor, least, limits)

    def _span(self) -> float:
        """The end of the frontier, in seconds."""
        if not len(self.frontier.seconds):
            return np.inf
        return float(self.frontier.seconds[0]) * self.space.question.span

    def _limits(self, pp: int, rows: Columns) -> Floats:
        """What each row must be below to change the top."""
        first, place = distinct([rows[name] for name in STRUCTURAL])
        structures = [self._structure(pp, rows, row) for row in first]
        return self.ranking.limits(self.cluster, structures, self.capacity)[place]

    def _structure(self, pp: int, rows: Mapping[str, Column], row: int) -> Structure:
        return (self.cluster, pp, *(int(rows[name][row]) for name in STRUCTURAL))

    def candidates(self, batch: Batch, chosen: Index, *, quick: bool) -> Iterator[Candidates]:
        """The plans of some rows that no bound excludes.

        Args:
            batch: the rows' batch.
            chosen: which of its rows.
            quick: only layouts with a name, and modes without depth.
        """
        for look in self._looks(batch, chosen, quick=quick):
            yield from self._of_deck(look)

    def _looks(self, batch: Batch, chosen: Index, *, quick: bool) -> Iterator[Look]:
        """The pipelines of some rows, as many layouts at a time as can be bounded at once."""
        if not len(chosen):
            return
        deepest = 1 if quick else max(int(deck.longest.max()) for deck in batch.decks)
        offered = modes(self.space.question, deepest)
        stuff = material(batch, chosen, offered)
        states = self._states(batch, stuff.rows)
        for deck in batch.decks:
            for part in parts_of(deck, len(chosen), quick=quick):
                yield Look(batch=batch, deck=part, stuff=stuff, states=states, modes=offered)

    def _states(self, batch: Batch, rows: Columns) -> list[States]:
        """The states of some rows by ZeRO stage, shard and place; the smallest first."""
        found = []
        for zero in sorted(self.space.zero_stages, reverse=True):
            for away in self.space.aways(zero):
                kinds = [
                    (
                        hsdp,
                        columns,
                        index,
                        states_of(batch, columns, zero, hsdp=hsdp, away=away),
                    )
                    for hsdp, columns, index in self.space.shards(rows, zero)
                ]
                found += [
                    States(zero=zero, away=away, hsdp=hsdp, rows=columns, base=index, held=held)
                    for hsdp, columns, index, held in kinds
                ]
        return found

    def _of_deck(self, look: Look) -> Iterator[Candidates]:
        """The candidates of one pipeline."""
        bounds = Bounds(look.deck, self._prefix, look.stuff.rows, look.stuff.work)
        limits = self._limits(look.deck.pp, look.stuff.rows)
        pairs = bounds.every()
        pairs = pairs.where(look.deck.orders(look.stuff.rows["grad_acc"])[pairs.row])
        heads = look.stuff.work.head
        quickest = min(heads, key=lambda loss: float(heads[loss].sum()))
        pairs = pairs.where(self._fast(bounds.seconds(pairs, NONE, quickest), limits[pairs.row]))
        hopeless: set[tuple[str, str, str]] = set()
        for mode in look.modes:
            kind = mode["recompute"], mode.get("recompute_method", "")
            deep = mode.get("recompute_num_layers", 0)
            chosen = pairs.where(deep <= look.deck.longest[pairs.layout] - (kind[1] == "block"))
            for loss in self.space.losses if len(chosen) else ():
                if (*kind, loss) in hopeless:
                    continue
                seconds = bounds.seconds(chosen, mode, loss)
                fast = self._fast(seconds, limits[chosen.row])
                if fast.any():
                    some = chosen.where(fast)
                    yield from self._of_mode(look, bounds, some, seconds[fast], mode, loss)
                elif kind[0] == "full" and deep:
                    # Deeper recomputation takes no less time.
                    hopeless.add((*kind, loss))

    def _of_mode(
        self, look: Look, bounds: Bounds, pairs: Pairs, seconds: Floats, mode: Mode, loss: str
    ) -> Iterator[Candidates]:
        """Candidates of one way of recomputation and one loss: those that fit and add something."""
        active, alive = bounds.active(pairs, mode, loss, look.stuff.room)
        apart = bounds.apart(pairs, active, mode, look.stuff.room)
        limits = self._limits(look.deck.pp, look.stuff.rows)
        among = np.arange(len(pairs))
        for number, states in enumerate(look.states):
            chosen, origin = states.spread(pairs, among)
            beyond = None if apart is None or states.away.parameters else apart[origin]
            beside = active[origin], alive[origin]
            tensors, reserved = bounds.bytes(chosen, *beside, states.held, beyond)
            device = reserved * self._share + look.stuff.room.outside[chosen.row]
            alone = tensors + look.stuff.room.outside[chosen.row]
            doubtful = (device > self._most) & (alone <= self._most) & (beyond is not None)
            within, step = limits[chosen.row], seconds[origin]
            kept = self._wanted(step, device, doubtful, within)
            if not number:
                # The first are the smallest: the others hold no less.
                among = np.unique(origin[kept])
            if not kept.any():
                continue
            chosen, device, doubtful = chosen.where(kept), device[kept], doubtful[kept]
            step = step[kept] + bounds.exchange(chosen, mode, states.held)
            kept = self._wanted(step, device, doubtful, within[kept])
            if kept.any():
                choice = functools.partial(
                    Choice, batch=look.batch, deck=look.deck, mode=mode, loss=loss
                )
                figures = step[kept], device[kept], doubtful[kept]
                yield from states.split(choice, chosen.where(kept), *figures)

    def _fast(self, seconds: Floats, limits: Floats) -> NDArray[np.bool_]:
        """Whether plans of these seconds could be wanted."""
        within = seconds <= self.longest
        if self._headroom:
            return within
        return within & ((seconds < limits) | (seconds <= self._span()))

    def _adds(self, seconds: Floats, device: Floats, limits: Floats) -> NDArray[np.bool_]:
        """Whether plans with these floors are within limits, and could change what is found."""
        fits = (device <= self._most) & (seconds <= self.longest)
        if self._headroom:
            return fits & (device < limits)
        before = (seconds <= self._span()) & self.frontier.adds(seconds, device)
        return fits & ((seconds < limits) | before)

    def _wanted(
        self, seconds: Floats, device: Floats, doubtful: NDArray[np.bool_], limits: Floats
    ) -> NDArray[np.bool_]:
        """The same, or plans whose tensors alone fit, and which could be among those replayed."""
        kept = self._adds(seconds, device, limits)
        if not doubtful.any():
            return kept
        slowest = min(self.longest, last_replayed(self.doubts))
        return kept | (doubtful & (seconds < limits) & (seconds <= slowest))

    def _weigh(self, candidates: list[Candidates]) -> None:
        """Weigh candidates, the most promising group first, while bounds do not exclude it."""
        for group in sorted(candidates, key=self._promise):
            limits = self._limits(group.choice.deck.pp, group.rows)
            kept = self._wanted(group.seconds, group.device, group.doubtful, limits)
            if kept.any():
                self._take(group.choice, {n: c[kept] for n, c in group.rows.items()})

    def _promise(self, group: Candidates) -> float:
        return float((group.device if self._headroom else group.seconds).min())

    def _take(self, choice: Choice, rows: Columns) -> None:
        """Weigh some rows of a choice."""
        question = self.space.question
        plan = plan_of_row(self.space, choice.fields(rows), rows, 0)
        whole = resolve(plan, question.architecture, self.space.cluster).plan
        self._rank_all(Group(plan=whole, columns=rows))

    def _rank_all(self, group: Group) -> None:
        """Weigh the plans of a group, and rank those that meet every limit."""
        question = self.space.question
        weighed = evaluate(question.architecture, group, self.space.cluster, question.limits)
        timely = weighed.seconds <= self.longest
        good = (weighed.device <= self._most) & timely
        number = len(self.groups)
        self.groups.append(group)
        self.cloud.append(
            Cloud(group=number, seconds=weighed.seconds, device=weighed.device, good=good)
        )
        if self.space.runtime.reserved == "replay":
            self._doubt(group, number, weighed, timely & ~good)
        index = np.flatnonzero(good)
        if not len(index):
            return
        self.frontier.add(
            weighed.seconds[index], weighed.device[index].astype(np.float64), number, index
        )
        for structure, found in self._best(group, number, weighed.seconds, weighed.device, index):
            self.ranking.offer(structure, found)

    def _doubt(self, group: Group, number: int, weighed: Weighed, over: NDArray[np.bool_]) -> None:
        """Keep the plans whose tensors fit, and whose closed bound of reserved bytes does not."""
        tensors = weighed.device - weighed.reserved + weighed.allocated
        index = np.flatnonzero(over & (tensors <= self._most))
        for structure, found in self._best(group, number, weighed.seconds, tensors, index):
            self.doubts.append(Doubt(structure=structure, found=found))

    def _best(
        self, group: Group, number: int, seconds: Floats, device: NDArray[np.int64], index: Index
    ) -> Iterator[tuple[Structure, Found]]:
        """The best plan of each structure among those of a group."""
        first, second = (device, seconds) if self._headroom else (seconds, device)
        order = index[np.lexsort((second[index], first[index]))]
        for place in distinct([group.columns[name][order] for name in STRUCTURAL])[0]:
            row = int(order[place])
            structure = self._structure(group.plan.pp, group.columns, row)
            yield structure, self.found(number, row, float(seconds[row]), int(device[row]))

    def found(self, group: int, row: int, seconds: float, device: int) -> Found:
        """A plan by where it was weighed, as the ranking takes it."""
        odd = plainness(self.groups[group].plan)
        return Found(
            key=self.ranking.key(self.cluster, seconds, device, self.capacity, odd),
            cluster=self.cluster,
            group=group,
            row=row,
            seconds=seconds,
            device=device,
        )
