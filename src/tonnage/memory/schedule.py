"""How many micro-batches a pipeline schedule keeps alive on a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from tonnage.algebra import Number, is_array, is_symbol, maximum, minimum, total
from tonnage.plan import Plan
from tonnage.plan.schedule import Pass, Way, chunks, group, order, per_chunk, settled


@dataclass(frozen=True, kw_only=True)
class Held:
    """Micro-batches that a stage holds something of at one moment of a step.

    Attributes:
        kept: by chunk, those whose activations are kept for backward.
        late: by chunk, those that only have their weights' gradients still to make.
        made: the pass that has just been made.
        chunk: the chunk that it went through.
        back: the chunk of the pass that follows, where that goes backward.
        puts_off: whether that pass leaves the weights' gradients for later.
    """

    kept: tuple[Number, ...]
    late: tuple[Number, ...]
    made: Way
    chunk: int
    back: int | None
    puts_off: bool = False

    @property
    def all(self) -> Number:
        """Passes through a chunk that are held, in either way."""
        return total((*self.kept, *self.late))


def fullest(
    plan: Plan, stage: int, microbatches: Number, alike: tuple[int, ...] = ()
) -> tuple[Held, ...]:
    """The moments at which a stage can hold most; which of them does, bytes decide.

    * GPipe: all micro-batches (arXiv 1811.06965).
    * 1F1B: the stages that a micro-batch still has to pass, ``p - r``
      (PipeDream-Flush, arXiv 2006.09503).
    * Interleaved 1F1B: ``2(p - r - 1) + (v - 1)g + 1`` passes through a chunk, in rounds of
      g micro-batches (p, where nothing is said) through chunk 0, then chunk 1, and so on
      (arXiv 2104.04473, section 2.2, and Megatron-Core's warm-up count).
    * ZB-H1: as 1F1B, and r micro-batches that wait for their weights' gradients; or one less,
      and r + 1 (arXiv 2401.10241, section 2.3).
    * ZB-V and DualPipe: what the order says of a step that repeats itself.

    Args:
        plan: schedule, pp, vpp and microbatch_group.
        stage: position in the pipeline, 0 first.
        microbatches: micro-batches of a step.
        alike: of each chunk of an interleaved stage, one that keeps as much of a micro-batch,
            itself or another; empty: none is known to. Moments that differ in nothing else count
            once.
    """
    p = plan.pp
    if plan.schedule == "gpipe":
        return (_after_forward(microbatches),)
    if plan.schedule == "interleaved":
        uneven = plan.microbatch_group is not None and isinstance(microbatches, int)
        if uneven and microbatches % group(plan):
            # A shorter last group puts both ways out of step.
            return tuple(_seen(plan, stage, microbatches))
        return _all_rounds(plan, stage, microbatches, alike or tuple(range(plan.vpp)))
    if plan.schedule == "zero-bubble":
        waiting = minimum(stage, maximum(microbatches - (p - stage), 0))
        kept = minimum(p - stage, microbatches)
        late = minimum(stage + 1, microbatches)
        put_off = Held(kept=(kept - 1,), late=(late,), made="input", chunk=0, back=None)
        return replace(_after_forward(kept, waiting), puts_off=True), put_off
    if chunks(plan) == 2:
        each = per_chunk(plan, microbatches)
        return tuple(_at_most(each, held) for held in _seen(plan, stage, 64 * p))
    return (_after_forward(minimum(p - stage, microbatches)),)


def _all_rounds(
    plan: Plan, stage: int, microbatches: Number, alike: tuple[int, ...]
) -> tuple[Held, ...]:
    """The moments of interleaving, of a column once for each count of micro-batches in it."""
    p, v, g = plan.pp, plan.vpp, group(plan)
    if is_symbol(microbatches):
        return tuple(_rounds(p, v, g, stage, microbatches))
    if not is_array(microbatches):
        return _one_step(p, v, g, stage, min(microbatches, ROUNDS * g))
    import numpy as np

    enough = np.minimum(microbatches, ROUNDS * g)
    counts, place = np.unique(enough, return_inverse=True)
    moments = _known_rounds(p, v, g, stage, tuple(counts.tolist()), alike)
    if len(moments) == 1:
        return moments[0]
    return tuple(
        replace(
            held[0],
            kept=tuple(
                np.array(each)[place] for each in zip(*(one.kept for one in held), strict=True)
            ),
        )
        for held in zip(*moments, strict=True)
    )


def _after_forward(kept: Number, late: Number = 0) -> Held:
    """Of a stage with one chunk, between a forward and a backward pass."""
    return Held(kept=(kept,), late=(late,), made="forward", chunk=0, back=0)


ROUNDS = 3
"""Rounds of interleaving in which a step has shown all of its moments."""


@lru_cache(maxsize=1024)
def _one_step(p: int, v: int, g: int, stage: int, microbatches: int) -> tuple[Held, ...]:
    """The moments of a step with so many micro-batches."""
    return tuple(_rounds(p, v, g, stage, microbatches))


@lru_cache(maxsize=4096)
def _known_rounds(
    p: int, v: int, g: int, stage: int, counts: tuple[int, ...], alike: tuple[int, ...]
) -> tuple[tuple[Held, ...], ...]:
    """The moments of steps with so many micro-batches each; as many, and alike, for each step.

    Of moments of one kind, one that holds more of everything in none of the steps is left out.
    Chunks that keep as much as each other count as one. The first moment stays.
    """
    import numpy as np

    moments = list(_rounds(p, v, g, stage, np.array(counts, dtype=np.int64)))
    sums = [_sums(held, alike) for held in moments]
    kinds: dict[tuple[int | None, ...], list[int]] = {}
    for index, held in enumerate(moments):
        key = (alike[held.chunk], None if held.back is None else alike[held.back])
        kinds.setdefault(key, []).append(index)

    def told(index: int, other: int) -> bool:
        """Whether another moment says all that this one does; of equal ones the first."""
        one, more = sums[index], sums[other]
        return bool((one <= more).all() and (other < index or (one < more).any()))

    kept = [
        index
        for same in kinds.values()
        for index in same
        if index == 0 or not any(told(index, other) for other in same if other != index)
    ]
    return tuple(
        tuple(
            replace(moments[index], kept=tuple(int(count[step]) for count in moments[index].kept))
            for index in sorted(kept)
        )
        for step in range(len(counts))
    )


def _sums(held: Held, alike: tuple[int, ...]) -> Any:
    """What is held in each kind of chunk: ``[kind, step]``."""
    import numpy as np

    found = dict.fromkeys(alike, 0)
    for chunk, count in zip(alike, held.kept, strict=True):
        found[chunk] = found[chunk] + count
    return np.stack(list(found.values()))


def _rounds(p: int, v: int, g: int, stage: int, microbatches: Number) -> Iterator[Held]:
    """Interleaving: at the end of warm-up, and whenever either way comes to another chunk.

    In between, a micro-batch of one chunk takes the place of one of another.
    """
    warm_up = 2 * (p - stage - 1) + (v - 1) * g + 1
    starts = (0, -warm_up % g)
    borders = {s + turn * g + d for turn in range(v + 1) for s in starts for d in (-1, 0, 1)}
    turns = sorted(border for border in borders if 0 <= border <= v * g)
    for turn, kept in zip(turns, _kept(v, g, warm_up, turns, microbatches), strict=True):
        yield Held(
            kept=kept,
            late=(0,) * v,
            made="forward",
            chunk=(warm_up + turn - 1) // g % v,
            back=v - 1 - turn // g % v,
        )


def _kept(
    v: int, g: int, warm_up: int, turns: list[int], microbatches: Number
) -> Iterator[tuple[Number, ...]]:
    """Micro-batches of each chunk that are held, after so many backward passes each."""

    def made(passes: Number, turn: int) -> Number:
        """Passes through the chunk that has this turn in each round, among so many of a stage."""
        found: Number = 0
        for round_number in range(ROUNDS):
            size = minimum(maximum(microbatches - round_number * g, 0), g)
            before = v * minimum(microbatches, round_number * g) + turn * size
            found = found + minimum(maximum(passes - before, 0), size)
        return found

    def held(turn: Number) -> list[Number]:
        passes = minimum(warm_up + turn, microbatches * v)
        return [made(passes, c) - made(turn, v - 1 - c) for c in range(v)]

    if not is_array(microbatches):
        yield from (tuple(held(turn)) for turn in turns)
        return
    import numpy as np

    # All turns at once: ``[turn, step]``.
    columns = held(np.array(turns, dtype=np.int64)[:, None])
    for index in range(len(turns)):
        yield tuple(column[index] for column in columns)


def _seen(plan: Plan, stage: int, microbatches: int) -> list[Held]:
    """What the order shows, without moments at which another holds more of everything.

    The one with most activations comes first.
    """
    moments = course(plan, stage, settled(plan, microbatches))
    found = dict.fromkeys(held for _, held in moments)
    most = [one for one in found if not any(_within(one, other) for other in found)]
    return sorted(most, key=lambda held: -sum(held.kept))


def _within(one: Held, other: Held) -> bool:
    """Whether another moment of the same kind holds as much of everything, and more."""
    kinds = [(each.made, each.chunk, each.back, each.puts_off) for each in (one, other)]
    pairs = zip((*one.kept, *one.late), (*other.kept, *other.late), strict=True)
    return kinds[0] == kinds[1] and one != other and all(a <= b for a, b in pairs)


def _at_most(microbatches: Number, held: Held) -> Held:
    """A short step has not more micro-batches to hold than it has."""
    kept = tuple(minimum(count, microbatches) for count in held.kept)
    late = tuple(minimum(count, microbatches) for count in held.late)
    return replace(held, kept=kept, late=late)


def course(plan: Plan, stage: int, microbatches: int) -> Iterator[tuple[Pass, Held]]:
    """Every pass of a step on one stage, and what is held once it has been made."""
    kept, late = [0] * chunks(plan), [0] * chunks(plan)
    passes = order(plan, stage, microbatches)
    for one, follows in zip_longest(passes, passes[1:]):
        kept[one.chunk] += {"forward": 1, "weight": 0}.get(one.way, -1)
        late[one.chunk] += {"input": 1, "weight": -1}.get(one.way, 0)
        back = follows is not None and follows.way in ("backward", "input")
        yield (
            one,
            Held(
                kept=tuple(kept),
                late=tuple(late),
                made=one.way,
                chunk=one.chunk,
                back=follows.chunk if back else None,
                puts_off=back and follows.way == "input",
            ),
        )


def live_per_chunk(plan: Plan, stage: int, microbatches: Number) -> tuple[Number, ...]:
    """Micro-batches whose activations each chunk of a stage holds at once when warm-up ends."""
    if plan.schedule == "interleaved" and plan.microbatch_group is None:
        # The first moment is the one: the others need not be made.
        kept = next(_rounds(plan.pp, plan.vpp, group(plan), stage, microbatches)).kept
    else:
        kept = fullest(plan, stage, microbatches)[0].kept
    # A column stays one where all of its plans hold the same.
    return tuple(count + 0 * microbatches for count in kept) if is_array(microbatches) else kept


def shortened(plan: Plan, stage: int, microbatches: int) -> tuple[Pass, ...]:
    """The passes of a step on one stage, without micro-batches that repeat the same sequence."""
    return order(plan, stage, settled(plan, microbatches))
