"""Pipeline schedules: which passes a stage runs, in which order, and where its chunks lie.

One description, read by all: the layout of layers over stages, what is alive of the
activations, the closed forms of time, and the replays of both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from typing import Final, Literal, TypeAlias

from tonnage.algebra import Number, exact_div
from tonnage.plan.plan import Plan, Schedule

Way: TypeAlias = Literal["forward", "backward", "input", "weight"]
"""A pass: forward; backward as a whole; or its halves, the gradient of what a chunk has read,
which the stage before waits for, and those of its weights, which nobody waits for
(Qi et al., arXiv 2401.10241, section 2)."""

SPLITS: Final[tuple[Schedule, ...]] = ("zero-bubble", "zbv", "dualpipe", "dualpipev")
"""Schedules that cut some backward passes in two."""

VEES = ("zbv", "dualpipev")
"""Schedules whose second chunks run the other way: the last is on the first stage."""

CHUNKS = {"interleaved": None, "zbv": 2, "dualpipev": 2}
"""Chunks of the model (``vpp``) that a schedule asks for; None: two and more; else one."""

OVERLAPPED = ("dualpipe", "dualpipev")
"""Schedules that run one micro-batch's forward beside another's backward."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One micro-batch through one chunk of a stage.

    Attributes:
        way: the pass.
        chunk: which chunk of the stage, in the order that a micro-batch goes through them.
        microbatch: the chunk's micro-batches in order, from 0.
        paired: it runs beside the next pass of the stage: both start once both can.
    """

    way: Way
    chunk: int
    microbatch: int
    paired: bool = False

    @property
    def forward(self) -> bool:
        """Whether it is a forward pass."""
        return self.way == "forward"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """Where a chunk of a stage comes in the model.

    Attributes:
        place: its position among all chunks of the model, 0 first.
        stream: which of the streams of micro-batches goes through it: 0, and under DualPipe
            also 1, from the last stage to the first through a second copy of the model.
    """

    place: int
    stream: int = 0


def chunks(plan: Plan) -> int:
    """Chunks that a stage holds; under DualPipe one of each copy of the model."""
    return 2 if plan.schedule == "dualpipe" else plan.vpp


def places(plan: Plan) -> int:
    """Chunks that the model is cut into."""
    return plan.pp * plan.vpp


def streams(plan: Plan) -> int:
    """Streams of micro-batches, which share those of a step."""
    return 2 if plan.schedule == "dualpipe" else 1


def per_chunk(plan: Plan, microbatches: Number) -> Number:
    """Micro-batches of a step that go through each chunk of a stage."""
    return microbatches if streams(plan) == 1 else exact_div(microbatches, streams(plan))


def seat(plan: Plan, stage: int, chunk: int) -> Seat:
    """Where a chunk of a stage comes in the model.

    * straight: chunk c of stage r follows chunk c of stage r - 1 (arXiv 2104.04473).
    * a V (ZB-V, DualPipeV): chunk 0 goes down the stages, chunk 1 back up.
    * mirrored (DualPipe, arXiv 2412.19437, section 3.2.1): stage r holds the model's pieces r
      and p - 1 - r, the earlier as chunk 0. Stage p - 1 - r holds the same, for the other stream.
    """
    if plan.schedule in VEES:
        return Seat(place=stage if chunk == 0 else 2 * plan.pp - 1 - stage)
    if plan.schedule != "dualpipe":
        return Seat(place=chunk * plan.pp + stage)
    near = min(stage, plan.pp - 1 - stage)
    upper = stage >= plan.pp // 2
    return Seat(place=near if chunk == 0 else plan.pp - 1 - near, stream=chunk ^ upper)


def sends(plan: Plan, stage: int, chunk: int) -> tuple[bool, bool]:
    """Whether a chunk's output, and the gradient of its input, go to another stage."""
    here = seat(plan, stage, chunk)
    turn = plan.schedule in VEES and stage == plan.pp - 1
    onward = here.place < places(plan) - 1 and not (turn and chunk == 0)
    back = here.place > 0 and not (turn and chunk == 1)
    return onward and plan.pp > 1, back and plan.pp > 1


def least(plan: Plan) -> int:
    """The fewest micro-batches of a step that a schedule has an order for."""
    if plan.schedule == "zbv":
        return 2 * plan.pp - 1
    return 2 * plan.pp if plan.schedule in OVERLAPPED else 1


def group(plan: Plan) -> int:
    """Micro-batches that go through one chunk in turn before the next (interleaving)."""
    return plan.microbatch_group or plan.pp


def settled(plan: Plan, microbatches: int) -> int:
    """Micro-batches enough to see all of a step: those past them repeat the same sequence.

    Of the same remainder over a round of interleaving as all of them.
    """
    if plan.schedule == "gpipe":
        return microbatches
    if plan.schedule == "interleaved":
        size = group(plan)
        return min(microbatches, 2 * size + (microbatches % size or size))
    deep = 2 * plan.pp if plan.schedule in SPLITS else plan.pp
    return min(microbatches, streams(plan) * (deep + SETTLED))


SETTLED = 7
"""Micro-batches beyond the pipeline's depth after which a step repeats itself, where weights'
gradients come late beyond twice that."""


def order(plan: Plan, stage: int, microbatches: int) -> tuple[Pass, ...]:
    """The passes of a step on one stage.

    * ``gpipe``: all forwards, then all backwards (arXiv 1811.06965).
    * ``1f1b``: as many forwards as stages follow, then one of each (arXiv 2006.09503).
    * ``interleaved``: the same over chunks, a group of micro-batches through each in turn,
      backward in the opposite order (arXiv 2104.04473, section 2.2; Megatron-Core).
    * ``zero-bubble``: ZB-H1 of arXiv 2401.10241, section 2.3: 1F1B whose stage r makes its
      weights' gradients r micro-batches late, so that the last have theirs to do while the
      gradient goes up to the first.
    * ``zbv``: ZB-V of the same paper, section 6, in the order of PyTorch's
      ``ScheduleZBVZeroBubble``.
    * ``dualpipev``, ``dualpipe``: DeepSeek's DualPipe repository. DualPipe is two DualPipeV of
      half the stages, mirrored.

    Args:
        plan: schedule, pp, vpp and microbatch_group.
        stage: position in the pipeline, 0 first.
        microbatches: micro-batches of a step.
    """
    each = per_chunk(plan, microbatches)
    return _order(plan.schedule or "1f1b", plan.pp, plan.vpp, group(plan), stage, each)


@lru_cache(maxsize=4096)
def _order(
    schedule: Schedule, p: int, v: int, size: int, stage: int, microbatches: int
) -> tuple[Pass, ...]:
    if schedule == "zero-bubble":
        names = _zero_bubble(p, stage, microbatches)
    elif schedule == "zbv":
        names = _zbv(p, stage, microbatches)
    elif schedule == "dualpipev":
        names = _dualpipe(p, stage, microbatches)
    elif schedule == "dualpipe":
        names = _dualpipe(p // 2, min(stage, p - 1 - stage), microbatches)
    else:
        rounds = size if v > 1 else max(microbatches, 1)
        warm_up = microbatches if schedule == "gpipe" else p - stage - 1
        if v > 1:
            warm_up = 2 * (p - stage - 1) + (v - 1) * size
        return tuple(_one_forward_one_backward(v, rounds, warm_up, microbatches))
    return tuple(_numbered(names))


def _one_forward_one_backward(v: int, size: int, warm_up: int, microbatches: int) -> Iterator[Pass]:
    """So many forwards, then one of each: a group through each chunk in turn, then the next."""

    def rounds(way: Way, turns: range) -> list[Pass]:
        return [
            Pass(way=way, chunk=chunk, microbatch=microbatch)
            for start in range(0, microbatches, size)
            for chunk in turns
            for microbatch in range(start, min(start + size, microbatches))
        ]

    forward = rounds("forward", range(v))
    backward = rounds("backward", range(v - 1, -1, -1))
    ahead = min(warm_up, len(forward))
    yield from forward[:ahead]
    for one, other in zip(forward[ahead:], backward, strict=False):
        yield one
        yield other
    yield from backward[len(forward) - ahead :]


def _zero_bubble(p: int, stage: int, microbatches: int) -> list[str]:
    """ZB-H1: a stage's weights' gradients come as many micro-batches late as stages precede it."""
    ahead, late = min(p - stage - 1, microbatches), min(stage, microbatches)
    steady = microbatches - ahead
    turns = [["F0", "B0"] if turn < steady else ["B0"] for turn in range(microbatches)]
    for turn in turns[late:]:
        turn.append("W0")
    return [*["F0"] * ahead, *chain.from_iterable(turns), *["W0"] * late]


def _zbv(p: int, stage: int, microbatches: int) -> list[str]:
    """ZB-V, whose warm-up takes 2p - 1 micro-batches."""
    after = p - stage
    return [
        *["F0"] * (2 * after - 1),
        *["F1", "F0"] * stage,
        *["F1", "B1", "W1"] * after,
        *["F0", "B0", "W0", "F1", "B1", "W1"] * (microbatches - 2 * p + stage + 1),
        *["B0", "W0", "F1", "B1", "W1"] * (after - 1),
        *["B0", "B1"] * stage,
        *["B0", "W0"] * after,
        *["W1"] * stage,
        *["W0"] * stage,
    ]


def _dualpipe(p: int, stage: int, microbatches: int) -> list[str]:
    """The eight parts that DualPipe's ``step`` numbers, on one half of a mirrored pipeline."""
    after, before = p - stage - 1, stage + 1
    main = microbatches - 2 * p + before
    # The innermost stage makes its first backward after its forward, and not beside it.
    first = ["F0+X1"] if after else ["F0", "X1"]
    whole = before // 2 * 2 + (stage % 2 == 0)
    ends = ["X" if turn < whole else "B" for turn in range(2 * before)]
    return [
        *["F0"] * (2 * after),
        *["F0", "F1"] * before,
        *["B1", "W", "F1"] * after,
        *first,
        "F1+X0",
        *["F0+X1", "F1+X0"] * (main - 1),
        *["X1", "F1+X0"] * after,
        *[f"{way}{1 - turn % 2}" for turn, way in enumerate(ends)],
        *["W", "B0"] * after,
        *["W"] * before,
    ]


_WAYS: dict[str, Way] = {"F": "forward", "X": "backward", "B": "input", "W": "weight"}


def _numbered(names: Iterable[str]) -> Iterator[Pass]:
    """Passes from short names: F0 is chunk 0's next forward, X a whole backward, F0+X1 a pair.

    W without a chunk is that of the first input's gradient that has none yet.
    """
    numbers = {(way, chunk): count() for way in _WAYS.values() for chunk in (0, 1)}
    waiting: deque[int] = deque()
    for name in names:
        parts = name.split("+")
        for part in parts:
            way = _WAYS[part[0]]
            chunk = int(part[1]) if len(part) > 1 else waiting.popleft()
            microbatch = next(numbers[way, chunk])
            if way == "backward":  # a whole one is both halves
                next(numbers["input", chunk])
                next(numbers["weight", chunk])
            elif way == "input":
                next(numbers["backward", chunk])
                waiting.append(chunk)
            paired = len(parts) > 1 and part is parts[0]
            yield Pass(way=way, chunk=chunk, microbatch=microbatch, paired=paired)
