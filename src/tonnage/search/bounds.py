"""Floors of seconds and bytes: what a plan cannot be below, without weighing it.

Both are sums over the parts of a stage (`tonnage.search.pieces`), for the stages that can be
the slowest or the fullest. Bytes leave out what lives only while a layer runs. Neither is ever
above what `tonnage.search.evaluate` finds.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import total
from tonnage.ledger.operation import Phase
from tonnage.memory.buffers import entries_of_step
from tonnage.memory.host import IN_FLIGHT
from tonnage.memory.reserved import GAPS, SEGMENTS
from tonnage.memory.schedule import fullest, live_per_chunk
from tonnage.plan import Plan
from tonnage.plan.schedule import SPLITS, chunks, least, streams
from tonnage.search.costs import Floats, Held, Room, Work
from tonnage.search.layouts import Deck, Ints
from tonnage.search.legality import Columns
from tonnage.search.modes import AWAY, Mode
from tonnage.search.pairs import Index, Pairs, spread
from tonnage.timing.replicas import PHASES


class Bounds:
    """The floors of one pipeline's layouts over rows of degrees."""

    def __init__(self, deck: Deck, prefix: Ints, rows: Columns, work: Work) -> None:
        """Take what the floors are sums of.

        Args:
            deck: the layouts.
            prefix: `tonnage.search.layouts.kind_prefix` of the model.
            rows: degrees; the accumulation is read.
            work: seconds of the parts, by row.
        """
        self._deck = deck
        self._prefix = prefix
        self._work = work
        self._microbatches = rows["grad_acc"]
        self._whole = prefix[:, -1].astype(float)
        self._counts = self.counted().sum(axis=2)
        self._before = prefix[:, deck.start[:, :, 0]].transpose(1, 2, 0)
        self._ends = deck.holders(0), deck.holders(-1)

    def counted(self, most: int | None = None) -> Ints:
        """Layers of each kind, ``[layout, stage, chunk, kind]``; of the first ``most`` only."""
        start, size = self._deck.start, self._deck.size
        end = start + (size if most is None else np.minimum(size, most))
        found: Ints = (self._prefix[:, end] - self._prefix[:, start]).transpose(1, 2, 3, 0)
        return found

    def every(self) -> Pairs:
        """All layouts with all rows."""
        layout, row = np.divmod(
            np.arange(len(self._deck) * len(self._microbatches)), len(self._microbatches)
        )
        return Pairs(layout=layout, row=row, shard=row)

    def seconds(self, pairs: Pairs, mode: Mode, loss: str) -> Floats:
        """The least that a step takes, by pair."""
        work, row = self._work, pairs.row
        forward, both = (part[:, row] for part in work.passes(self._deck.schedule))
        repeated, again = self._repeated(mode, row, forward)
        each = both if repeated is None else both + repeated
        ends = work.embedding[row], work.head[loss][row]
        stage = spread(self._counts, pairs, each)
        if again is not None:
            stage += spread(again, pairs, forward)
        for end, positions in zip(ends, self._ends, strict=True):
            for position in positions:
                stage[:, position] += end
        whole = self._whole @ each + ends[0] + ends[1]
        found = self._step(stage, whole, pairs, each, ends[0])
        exactly: Floats = found * (1 - 1e-9)  # sums in another order
        return exactly

    def _step(
        self, stage: Floats, whole: Floats, pairs: Pairs, each: Floats, first: Floats
    ) -> Floats:
        """As `tonnage.timing.pipeline` has it, for the stages that are looked at."""
        deck, micro = self._deck, self._microbatches[pairs.row]
        if chunks(deck.shape) == 2 and deck.schedule != "interleaved":
            return self._folded(stage.max(axis=1), whole, pairs.row)
        if deck.schedule not in ("1f1b", "zero-bubble"):
            slowest = stage.max(axis=1)
            flushed: Floats = micro * slowest + (whole - slowest) / deck.vpp
            return flushed
        before = spread(self._before, pairs, each)
        before[:, 1:] += first[:, None]
        after = whole[:, None] - before - stage
        due = deck.pp - 1 - np.array(deck.stages)
        if deck.schedule == "zero-bubble":
            # What follows is waited for without its weights' gradients, and filled forwards.
            after *= (1.0 - self._late[pairs.row])[:, None]
            due = np.minimum(due, micro[:, None] - 1)
            before = spread(self._before, pairs, self._work.ahead[:, pairs.row])
        times = before + micro[:, None] * stage + np.maximum(2 * after - due * stage, 0.0)
        longest: Floats = times.max(axis=1)
        return longest

    def _folded(self, slowest: Floats, whole: Floats, row: Index) -> Floats:
        """ZB-V and DualPipe: the others' idle time, less what they are faster.

        Of its own work a stage idles no less than a share, and the slowest no more than all. The
        more the slowest takes, the longer is the sum: there are micro-batches enough.
        """
        deck, work = self._deck, self._work
        if deck.schedule == "zbv":
            # Half the longer of F and B, which are all but W.
            idle = (1.0 - self._late) / 4
        else:
            # All but half of F and three halves of W; the ends of the model put nothing off.
            taken = (work.ahead / 2 + 1.5 * work.late) / work.compute
            idle = 1.0 - np.maximum(taken.max(axis=0), 0.5)
        others = deck.pp // streams(deck.shape)
        bubble = whole * (1.0 + idle[row]) - (others + 1) * slowest
        turns = self._microbatches[row] // streams(deck.shape)
        folded: Floats = turns * slowest + np.maximum(bubble, 0.0)
        return folded

    @cached_property
    def _late(self) -> Floats:
        """The most that weights' gradients are of a stage's work, by row."""
        most: Floats = (self._work.late / self._work.compute).max(axis=0)
        return most

    def exchange(self, pairs: Pairs, mode: Mode, held: Held) -> Floats:
        """The least that a step takes beside its micro-batches, by pair.

        Nothing where a device holds two stages, each of which sees half of the micro-batches, and
        traffic goes in every one.

        Args:
            pairs: layouts, rows and shards of states.
            mode: what is recomputed.
            held: the parts' states, by shard.
        """
        found, shard = held.exchange, pairs.shard
        if streams(self._deck.shape) > 1 and found.setting.zero > 1:
            return np.zeros(len(pairs))
        stepped = spread(self._counts, pairs, found.layers.stepped[:, shard])
        for positions, end in zip(self._ends, found.ends, strict=True):
            stepped[:, positions] += end[shard, None]
        shown = np.zeros_like(stepped)
        for phase in PHASES:
            busy = spread(self._counts, pairs, found.layers.busy[phase][:, shard])
            window = found.passes[phase][shard, None] * self._window(pairs, phase, mode)
            shown += found.shown(phase, busy, window)
        step = stepped.max(axis=1)
        if found.host is not None:
            step = np.maximum(step, found.host[shard])
        exactly: Floats = (step + shown.max(axis=1)) * (1 - 1e-9)
        return exactly

    def _window(self, pairs: Pairs, phase: Phase, mode: Mode) -> Floats:
        """The most compute of one micro-batch that hides traffic, ``[pair, stage]``."""
        work, row = self._work, pairs.row
        each, again = work.window.layers[phase][:, row], None
        if phase == "backward":
            repeated, again = self._repeated(mode, row, work.forward[:, row])
            each = each if repeated is None else each + repeated
        stage = spread(self._counts, pairs, each)
        if again is not None:
            stage += spread(again, pairs, work.forward[:, row])
        for positions, end in zip(self._ends, work.window.ends, strict=True):
            stage[:, positions] += end[phase][row, None]
        return stage

    def _repeated(
        self, mode: Mode, row: Index, forward: Floats
    ) -> tuple[Floats | None, Ints | None]:
        """What recomputation repeats: of every layer; or of which layers the forward pass."""
        if mode["recompute"] == "selective":
            return self._work.selected[mode["recompute_modules"]][:, row], None
        if mode["recompute"] == "full" and mode["recompute_method"] == "uniform":
            return forward, None
        if mode["recompute"] == "full":
            return None, self.counted(mode["recompute_num_layers"]).sum(axis=2)
        return None, None

    def states(self, pairs: Pairs, held: Held) -> tuple[Floats, Floats]:
        """Bytes of states while layers run and in a step, ``[pair, stage]``.

        Args:
            pairs: layouts and shards of states.
            held: bytes of the parts' states, by shard.
        """
        filled = self._filled[pairs.row]
        each = np.where(filled, held.filled[:, pairs.shard], held.resting[:, pairs.shard])
        resting = spread(self._counts, pairs, each)
        stepping = spread(self._counts, pairs, held.stepping[:, pairs.shard])
        for positions, (rest, full, step) in zip(self._ends, held.ends, strict=True):
            resting[:, positions] += np.where(filled, full[pairs.shard], rest[pairs.shard])[:, None]
            stepping[:, positions] += step[pairs.shard, None]
        return resting, stepping

    def bytes(
        self, pairs: Pairs, active: Floats, alive: Floats, held: Held, apart: Floats | None
    ) -> tuple[Floats, Floats]:
        """The fullest stage's tensors, and what the allocator holds of them at the least, by pair.

        Args:
            pairs: layouts and shards of states.
            active: what lives beside the states, by pair and stage.
            alive: what of it stays between passes.
            held: bytes of the parts' states, by shard.
            apart: what the closed bound of reserved memory adds; None where there is none, and
                it is the tensors' share.
        """
        resting, stepping = self.states(pairs, held)
        tensors: Floats = np.maximum(resting + active, stepping).max(axis=1)
        if apart is None:
            return tensors, tensors
        # The bound sums categories at their largest.
        bound = np.maximum(resting + active, stepping + alive) + apart
        return tensors, np.maximum(tensors, bound.max(axis=1))

    def apart(self, pairs: Pairs, active: Floats, mode: Mode, room: Room) -> Floats | None:
        """What `tonnage.memory.reserved.reserved_bound` adds to tensors, by pair and stage.

        Gaps among what comes and goes, and what waits for collectives. None where it does not hold.
        """
        if room.waiting is None or self._deck.schedule in SPLITS:
            return None
        passes = 3 if mode["recompute"] == "full" else 2
        step = passes * spread(self._counts, pairs, room.waiting.once[:, pairs.row])
        whole = self._microbatches[pairs.row, None] * step
        waiting = np.minimum(whole, room.waiting.queue[pairs.row, None])
        apart: Floats = GAPS * active + waiting + SEGMENTS
        return apart

    @cached_property
    def _filled(self) -> NDArray[np.bool_]:
        """Rows of which a stage has gone back through each chunk before it holds the most.

        No schedule but GPipe has more than two micro-batches for each stage ahead of that.
        """
        enough = self._microbatches > 2 * self._deck.pp
        return enough & (self._deck.schedule != "gpipe")

    @cached_property
    def _received(self) -> list[Ints]:
        """Layer inputs that each stage has buffers for, by row."""
        counts, place = np.unique(self._microbatches, return_inverse=True)
        few = tuple(counts.tolist())
        return [_received_at(self._deck.shape, stage, few)[place] for stage in self._deck.stages]

    def active(self, pairs: Pairs, mode: Mode, loss: str, room: Room) -> tuple[Floats, Floats]:
        """The least bytes that live beside the states, at the loss or after, ``[pair, stage]``.

        And what of them micro-batches in flight keep.

        Args:
            pairs: layouts and rows.
            mode: what is recomputed.
            loss: how the cross-entropy is computed.
            room: bytes of the parts' activations, by row.
        """
        alive, rebuilt = self._activations(pairs, mode, room)
        if mode.get(AWAY):
            alive = np.minimum(alive, self._on_device(pairs, mode, room)[:, None])
        if room.buffered:
            for position, entries in enumerate(self._received):
                alive[:, position] += entries[pairs.row] * room.entry[pairs.row]
        row, (first, last) = pairs.row, self._ends
        for position in first:
            alive[:, position] += self._live[position][0][row] * room.saved[0][row]
        # Activations on the host are no longer there once a layer is run again.
        if mode.get(AWAY):
            moment = np.maximum(alive, rebuilt)
        else:
            full = mode["recompute"] == "full"
            modules = () if full else mode.get("recompute_modules", ())
            moment = alive + rebuilt + room.beside[modules][row, None]
        for position in last:
            heads = self._live[position][-1][row] * room.saved[1][row]
            losing = alive[:, position] + heads + room.logits[loss][row]
            moment[:, position] = np.maximum(moment[:, position], losing)
        return moment, alive

    def _on_device(self, pairs: Pairs, mode: Mode, room: Room) -> Floats:
        """What the layers keep on the device at most where the rest lies on the host, by pair.

        No less than of the smallest layers (`tonnage.memory.host.device_limit`).
        """
        if mode["recompute"] == "full":
            return IN_FLIGHT * room.entry[pairs.row]
        kept = room.kept[mode.get("recompute_modules", ())][:, pairs.row]
        least: Floats = IN_FLIGHT * kept.min(axis=0)
        return least

    def _activations(self, pairs: Pairs, mode: Mode, room: Room) -> tuple[Floats, Floats]:
        """What live micro-batches keep, and what recomputation brings back beside it."""
        layout, row = pairs.layout, pairs.row
        alive = np.zeros((len(pairs), len(self._deck.stages)))
        entry = room.entry[row]
        modules = mode.get("recompute_modules", ())
        full = mode["recompute"] == "full"
        count = mode.get("recompute_num_layers", 0)
        block = full and mode["recompute_method"] == "block"
        whole = self.counted()
        inside = whole - self.counted(count) if block else whole
        kept = room.kept[() if full else modules][:, row]
        for position, different in enumerate(self._alive):
            for chunk, live in different:
                size = self._deck.size[layout, position, chunk]
                if full and not block:
                    each = -(-size // _group(size, count)) * entry
                else:
                    each = (inside[layout, position, chunk] * kept.T).sum(axis=1)
                    each = each + (np.minimum(size, count) * entry if block else 0)
                alive[:, position] += live[row] * each
        if not full:
            return alive, np.zeros_like(alive)
        group = self.counted(1 if block else max(count, 1))[:, :, 0]
        rebuilt = spread(group, pairs, kept) - entry[:, None]
        return alive, np.maximum(rebuilt, 0.0)

    @cached_property
    def _live(self) -> list[list[Ints]]:
        """Micro-batches that each chunk of each stage holds at once, by row."""
        shape = self._deck.shape
        # Of those that the schedule has no order for nothing is asked.
        fewest = least(shape)
        legal = np.where(self._deck.orders(self._microbatches), self._microbatches, fewest)
        counts, place = np.unique(legal, return_inverse=True)
        few = tuple(counts.tolist())
        return [
            [np.broadcast_to(live, len(few))[place] for live in _alive_at(shape, stage, few)]
            for stage in self._deck.stages
        ]

    @cached_property
    def _alive(self) -> list[list[tuple[int, Ints]]]:
        """Chunks that differ in some layout, with the micro-batches of all that are like them."""
        whole = self.counted()
        found = []
        for position, live in enumerate(self._live):
            first = [
                next(c for c in range(chunk + 1) if _same(whole[:, position], c, chunk))
                for chunk in range(len(live))
            ]
            found.append(
                [
                    (chunk, total(live[c] for c in range(len(live)) if first[c] == chunk))
                    for chunk in sorted(set(first))
                ]
            )
        return found


@lru_cache(maxsize=4096)
def _alive_at(shape: Plan, stage: int, counts: tuple[int, ...]) -> tuple[Ints, ...]:
    """Micro-batches in flight on a stage, by chunk, for some numbers of them in a step."""
    microbatches = np.array(counts, dtype=np.int64)
    if chunks(shape) == 1 or shape.schedule == "interleaved":
        return tuple(live_per_chunk(shape, stage, microbatches))
    # Of what the order shows, a moment that is both the loss's and a backward pass's.
    turning = [
        held.kept
        for held in fullest(shape, stage, microbatches)
        if held.made == "forward" and held.chunk == 1 and held.back is not None
    ]
    most: tuple[Ints, ...] = max(turning, key=lambda kept: int(total(kept).max()))
    return most


@lru_cache(maxsize=4096)
def _received_at(shape: Plan, stage: int, counts: tuple[int, ...]) -> Ints:
    """Layer inputs that a stage has buffers for, for some numbers of micro-batches in a step."""
    entries = entries_of_step(shape, stage, np.array(counts, dtype=np.int64))
    return np.broadcast_to(np.asarray(entries), (len(counts),))


def _same(counts: Ints, one: int, other: int) -> bool:
    return bool((counts[:, one] == counts[:, other]).all())


def _group(size: Ints, count: int) -> Ints:
    """Layers between two checkpoints, as `tonnage.memory.activations.group_length` has it."""
    if count:
        return np.minimum(count, np.maximum(size, 1))
    return np.maximum(1, np.rint(np.sqrt(size)).astype(np.int64))
