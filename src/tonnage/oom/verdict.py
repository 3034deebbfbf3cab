"""Fragmentation or true shortage: what the figures of a message alone say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tonnage.memory.allocator import MIDDLE_SEGMENT, SMALL_SEGMENT
from tonnage.oom.host import Kill
from tonnage.oom.message import Message
from tonnage.oom.wordings import HOST
from tonnage.quantity import GIB, format_bytes

Cause: TypeAlias = Literal[
    "fragmentation",
    "shortage",
    "larger than the device",
    "other processes",
    "outside the allocator",
    "own limit",
    "driver",
    "host memory",
    "impossible size",
    "unknown",
]

OWN: Final = 4 * GIB
"""What one process may well hold outside its allocator: context, libraries, communicators."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why an allocation failed.

    Attributes:
        cause: in a word.
        why: the figures that say so, as a sentence.
        missing: bytes that were lacking; for fragmentation, of room in one piece.
    """

    cause: Cause
    why: str
    missing: int | None = None


def verdict(message: Message) -> Verdict:
    """What a message's figures say; the first that holds.

    * host memory: it was asked of the host.
    * impossible size: no tensor is of that size.
    * own limit: the process may hold less than the device has, and would pass it.
    * larger than the device: the request is.
    * other processes: it would fit, were the device this process' own; and they hold more than
      the allocator keeps unused.
    * outside the allocator: as before, where the message names no process: it may be this one.
    * driver: the device has as much free as was asked for, and refused all the same.
    * fragmentation: what the allocator holds and no tensor uses would serve the request, were
      it in one piece.
    * shortage: neither is enough, and together they are not.
    """
    tried, free = message.tried, message.free
    if message.backend == HOST:
        return _of_host(tried)
    if message.note and message.free is None:
        return _by_note(message)
    if tried is None:
        return Verdict(cause="unknown", why="the message says not how much was asked for")
    room, idle = free or 0, message.unallocated
    found = _outer(message, tried, room) or _held(message, tried, idle)
    if found is not None:
        return found
    if free is None:
        return Verdict(cause="unknown", why=_untold(message))
    unused = f", and {format_bytes(idle)} held but unused" if idle is not None else ""
    return Verdict(
        cause="shortage",
        why=f"{format_bytes(tried)} were asked for with {format_bytes(room)} free{unused}",
        missing=tried - room - (idle or 0),
    )


def _of_host(tried: int | None) -> Verdict:
    size = format_bytes(tried) if tried is not None else "memory"
    return Verdict(cause="host memory", why=f"{size} were asked of the host, which has them not")


def _by_note(message: Message) -> Verdict:
    if "no size" in message.note:
        return Verdict(cause="impossible size", why=message.note)
    if message.backend == "XPU":
        return Verdict(cause="driver", why=message.note)
    return Verdict(cause="unknown", why=message.note)


def _untold(message: Message) -> str:
    """A message without what was free (XPU): what may at most have been."""
    if message.capacity is None or message.reserved is None:
        return "the message says nothing of what was free"
    most = format_bytes(max(message.capacity - message.reserved, 0))
    return (
        f"the message says not what was free: at most {most}, which the allocator does not hold; "
        "other processes, or the driver's limit of a single allocation, may have left less"
    )


def _outer(message: Message, tried: int, room: int) -> Verdict | None:
    """Limits that lie outside what the tensors need."""
    allowed, held = message.allowed, message.process or message.reserved
    # Only a limit of its own keeps a process from what is free; the figures are rounded.
    if allowed is not None and held is not None and (held + tried > allowed or room >= tried):
        return Verdict(
            cause="own limit",
            why=f"the process may hold {format_bytes(allowed)} and holds {format_bytes(held)}",
            missing=max(held + tried - allowed, 0),
        )
    if message.capacity is not None and tried > message.capacity:
        return Verdict(
            cause="larger than the device",
            why=f"{format_bytes(tried)} is more than all {format_bytes(message.capacity)} of it",
            missing=tried - room,
        )
    return _elsewhere(message, tried, room)


def _elsewhere(message: Message, tried: int, room: int) -> Verdict | None:
    """What others hold, where it is more than the allocator's own unused memory."""
    others, rest, idle = others_bytes(message), message.elsewhere or 0, message.unallocated or 0
    if room >= tried:
        return None
    if others > idle and tried <= room + others:
        return Verdict(
            cause="other processes",
            why=f"other processes hold {format_bytes(others)} of the device",
            missing=tried - room,
        )
    if rest - OWN > idle and tried <= room + rest - OWN:
        return Verdict(
            cause="outside the allocator",
            why=f"{format_bytes(rest)} of the device are neither free nor the allocator's: other "
            "processes, or libraries of this one",
            missing=tried - room,
        )
    return None


def _held(message: Message, tried: int, idle: int | None) -> Verdict | None:
    """What would have been enough, had it been in one piece or been given."""
    room = message.free or 0
    if message.free is not None and room >= tried:
        return Verdict(
            cause="driver",
            why=f"{format_bytes(room)} are free: the driver refused a request of "
            f"{format_bytes(tried)} (a limit of the host or the driver, or memory just freed)",
        )
    # Segments that are wholly unused have been given back before the error was raised.
    if idle is not None and idle + room >= tried and idle >= tried / 2:
        return Verdict(
            cause="fragmentation",
            why=f"{format_bytes(idle)} are held and unused, in pieces smaller than the "
            f"{format_bytes(tried)} asked for; {format_bytes(room)} are free",
            missing=tried - room,
        )
    return None


def killed(kill: Kill) -> Verdict:
    """What a process that was killed tells."""
    if not kill.sure:
        return Verdict(
            cause="host memory",
            why="a process was killed (signal 9): most often by the kernel, for want of memory of "
            "the host; a scheduler or a person does it, too",
        )
    where = "a limit of its container or job" if kill.cgroup else "the memory of the host"
    held = f", which held {format_bytes(kill.resident)}" if kill.resident else ""
    name = f" ({kill.process})" if kill.process else ""
    return Verdict(
        cause="host memory", why=f"a process{name} was killed{held}: it ran into {where}"
    )


def others_bytes(message: Message) -> int:
    """What other processes hold: as named, or what the device has beyond all that is named.

    Only a message that counts its own process tells the others' share.
    """
    if message.others is not None:
        return message.others
    if message.capacity is None or message.process is None or message.free is None:
        return 0
    return max(message.capacity - message.free - message.process, 0)


SEGMENTED: Final = ("CUDA", "HIP", "NPU", "XPU")
"""Backends whose allocator asks for segments, and names these in its message."""


def size_says(message: Message) -> str:
    """What the allocator's rounding hides of the tensor that was asked for, as a clause.

    A message names the segment: 2 MiB for up to 1 MiB, 20 MiB for up to 10 MiB, and whole 2 MiB
    above (PyTorch's CUDA caching allocator, since 1.3).
    """
    if message.backend not in SEGMENTED:
        return ""
    if message.tried == SMALL_SEGMENT:
        return "any request of up to 1 MiB takes 2 MiB: the size does not tell the tensor"
    if message.tried == MIDDLE_SEGMENT:
        return "any request of 1 to 10 MiB takes 20 MiB: the size does not tell the tensor"
    return ""
