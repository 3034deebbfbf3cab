"""A log, or one message: which failure came first, where in the step, and on how many ranks."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import BinaryIO

from tonnage.errors import InputError
from tonnage.files import UnreadableError, opened
from tonnage.oom.host import Kill, find_kills
from tonnage.oom.message import LONGEST, MOST, Message, find_messages
from tonnage.oom.serving import CacheShortage, find_shortages
from tonnage.oom.text import Stretch, stretches
from tonnage.oom.traceback import LONGEST as TRACEBACK
from tonnage.oom.traceback import Moment, Place, place, rank


class NoFailureError(InputError):
    """A log that was read, and tells of no memory that ran out."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a log says of running out of memory.

    Attributes:
        message: the first message of an allocator, or None.
        shortage: the first check of a serving engine that failed, or None.
        kill: a process that was killed, where nothing else is told; or None.
        moment: what the code was doing, by the traceback before the message; None: unknown.
        frame: the deepest frame of that traceback; empty where there is none.
        rank: the rank that the message's line names; None: it names none.
        times: messages in the log.
        ranks: distinct ranks that they name.
        truncated: the log has more messages than what is read of one.
    """

    message: Message | None = None
    shortage: CacheShortage | None = None
    kill: Kill | None = None
    moment: Moment | None = None
    frame: str = ""
    rank: int | None = None
    times: int = 1
    ranks: int = 0
    truncated: bool = False


def read_log(path: str) -> Failure:
    """The first failure of a log file of any length, or of standard input (``-``).

    Raises:
        InputError: it cannot be read, is empty, or is no text.
        NoFailureError: it says nothing of memory.
    """
    try:
        with opened(path) as file:
            return _failure(file, path)
    except UnreadableError as error:
        raise _unreadable(path, str(error)) from None


def failure(text: str, *, name: str = "the text") -> Failure:
    """The first failure that a text tells of.

    Raises:
        NoFailureError: it tells of none.
    """
    return _failure(io.BytesIO(text.encode("utf-8", errors="replace")), name)


@dataclass(kw_only=True)
class _Found:
    """What has been seen of a log so far."""

    message: tuple[Message, Place] | None = None
    shortage: tuple[CacheShortage, Place] | None = None
    kill: tuple[Kill, Place] | None = None
    times: int = 0
    ranks: set[int] = field(default_factory=set)
    characters: int = 0
    zeros: int = 0

    def add(self, stretch: Stretch) -> None:
        """See one stretch more."""
        text, begin, end = stretch.text, stretch.begin, stretch.end
        self.characters += end - begin
        self.zeros += text.count("\0", begin, end)
        for start, message in find_messages(text, begin, end)[: MOST - self.times]:
            self.times += 1
            self._count(text, start)
            # The first that says how much was asked for tells most.
            known = self.message[0] if self.message else None
            if known is None or (known.tried is None and message.tried is not None):
                self.message = (message, place(text, start))
        for start, shortage in find_shortages(text, begin, end)[: MOST - self.times]:
            self.times += 1
            self._count(text, start)
            self.shortage = self.shortage or (shortage, place(text, start))
        for start, kill in find_kills(text, begin, end):
            if self.kill is None or (kill.sure and not self.kill[0].sure):
                self.kill = (kill, place(text, start))

    def _count(self, text: str, start: int) -> None:
        named = rank(text, start)
        if named is not None:
            self.ranks.add(named)


def _failure(file: BinaryIO, name: str) -> Failure:
    found = _Found()
    for stretch in stretches(file, before=TRACEBACK, after=LONGEST):
        found.add(stretch)
        if found.times >= MOST:
            break
    message = found.message[0] if found.message else None
    # A serving engine's own check is the cause of what its allocator says beside it, and a launcher
    # kills the other ranks once one has failed.
    told = found.shortage or found.message or found.kill
    if told is None:
        raise _nothing(name, found)
    where = told[1]
    return Failure(
        message=message,
        shortage=found.shortage[0] if found.shortage else None,
        kill=found.kill[0] if found.kill and told is found.kill else None,
        moment=_moment(found, message, where),
        frame=where.frame,
        rank=where.rank,
        times=max(found.times, 1),
        ranks=len(found.ranks),
        truncated=found.times >= MOST,
    )


def _moment(found: _Found, message: Message | None, where: Place) -> Moment | None:
    if found.shortage:
        return "start of a serving engine"
    if where.moment is None and message is not None and message.backend == "NCCL":
        return "setup of communication"
    return where.moment


def _unreadable(name: str, problem: str) -> InputError:
    return InputError(
        field="LOG",
        value=name,
        problem=problem,
        accepted="a text file with an out-of-memory message, or - for standard input",
    )


def _nothing(name: str, found: _Found) -> InputError:
    if not found.characters:
        return _unreadable(name, "is empty")
    if found.zeros:
        return _unreadable(name, "is no text (it has zero bytes), and holds no known message")
    return NoFailureError(
        field="LOG",
        value=name,
        problem="tells of no memory that ran out",
        accepted="messages of PyTorch (CUDA, HIP, XPU, MPS, CPU), torch_npu, XLA, TensorFlow, "
        "NCCL, cuBLAS, vLLM, SGLang, TensorRT-LLM and of a kernel that kills",
    )
