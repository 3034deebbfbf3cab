"""How many micro-batches a pipeline schedule keeps alive on a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest

from tonnage.algebra import Number, is_array, is_symbol, maximum, minimum, total, where
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


def fullest(plan: Plan, stage: int, microbatches: Number) -> tuple[Held, ...]:
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
    """
    p = plan.pp
    if plan.schedule == "gpipe":
        return (_after_forward(microbatches),)
    if plan.schedule == "interleaved":
        uneven = plan.microbatch_group is not None and isinstance(microbatches, int)
        if uneven and microbatches % group(plan):
            # A shorter last group puts both ways out of step.
            return tuple(_seen(plan, stage, microbatches))
        if _at_least(microbatches, ROUNDS * group(plan)):
            return _long_rounds(p, plan.vpp, group(plan), stage)
        return tuple(_rounds(p, plan.vpp, group(plan), stage, microbatches))
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


def _after_forward(kept: Number, late: Number = 0) -> Held:
    """Of a stage with one chunk, between a forward and a backward pass."""
    return Held(kept=(kept,), late=(late,), made="forward", chunk=0, back=0)


ROUNDS = 3
"""Rounds of interleaving in which a step has shown all of its moments."""


@lru_cache(maxsize=1024)
def _long_rounds(p: int, v: int, g: int, stage: int) -> tuple[Held, ...]:
    """The moments of a step that is long enough to show them all."""
    return tuple(_rounds(p, v, g, stage, ROUNDS * g))


def _at_least(microbatches: Number, count: int) -> bool:
    """Whether a step, or every step of a column, has so many micro-batches."""
    if is_symbol(microbatches):
        return False
    enough = microbatches >= count
    return bool(enough.all()) if is_array(enough) else bool(enough)


def _rounds(p: int, v: int, g: int, stage: int, microbatches: Number) -> Iterator[Held]:
    """Interleaving: at the end of warm-up, and whenever either way comes to another chunk.

    In between, a micro-batch of one chunk takes the place of one of another.
    """
    warm_up = 2 * (p - stage - 1) + (v - 1) * g + 1

    def made(passes: Number, turn: int) -> Number:
        """Passes through the chunk that has this turn in each round, among so many of a stage."""
        found: Number = 0
        for round_number in range(ROUNDS):
            size = minimum(maximum(microbatches - round_number * g, 0), g)
            before = v * minimum(microbatches, round_number * g) + turn * size
            found = found + minimum(maximum(passes - before, 0), size)
        return found

    starts = (0, -warm_up % g)
    borders = {s + turn * g + d for turn in range(v + 1) for s in starts for d in (-1, 0, 1)}
    for turn in sorted(border for border in borders if 0 <= border <= v * g):
        passes = minimum(warm_up + turn, microbatches * v)
        # Past the last forward pass less and less is held.
        counts = [made(passes, c) - made(turn, v - 1 - c) for c in range(v)]
        if turn:
            there = warm_up + turn <= microbatches * v
            counts = [where(there, count, 0) for count in counts]
        yield Held(
            kept=tuple(counts),
            late=(0,) * v,
            made="forward",
            chunk=(warm_up + turn - 1) // g % v,
            back=v - 1 - turn // g % v,
        )


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
    kept = fullest(plan, stage, microbatches)[0].kept
    # A column stays one where all of its plans hold the same.
    return tuple(count + 0 * microbatches for count in kept) if is_array(microbatches) else kept


def shortened(plan: Plan, stage: int, microbatches: int) -> tuple[Pass, ...]:
    """The passes of a step on one stage, without micro-batches that repeat the same sequence."""
    return order(plan, stage, settled(plan, microbatches))
