"""Fragmentation or true shortage: what the figures of a message alone say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.memory.allocator import MIDDLE_SEGMENT, SMALL_SEGMENT
from tonnage.oom.message import Message
from tonnage.quantity import format_bytes

Cause: TypeAlias = Literal[
    "fragmentation",
    "shortage",
    "larger than the device",
    "other processes",
    "own limit",
    "driver",
    "unknown",
]


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

    * own limit: the process may hold less than the device has, and would pass it.
    * larger than the device: the request is.
    * other processes: it would fit, were the device this process' own.
    * fragmentation: what the allocator holds and no tensor uses would serve the request, were
      it in one piece.
    * driver: the device has as much free as was asked for, and refused all the same.
    * shortage: neither is enough, and together they are not.
    """
    tried, free = message.tried, message.free
    if tried is None:
        return Verdict(cause="unknown", why="the message says not how much was asked for")
    room, idle = free or 0, message.unallocated
    found = _outer(message, tried, room) or _held(tried, room, idle)
    if found is not None:
        return found
    if free is None and idle is None:
        return Verdict(cause="unknown", why="the message says nothing of what was free")
    unused = f", and {format_bytes(idle)} held but unused" if idle is not None else ""
    return Verdict(
        cause="shortage",
        why=f"{format_bytes(tried)} were asked for with {format_bytes(room)} free{unused}",
        missing=tried - room - (idle or 0),
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
    others = others_bytes(message)
    if others and room + (message.unallocated or 0) < tried <= room + others:
        return Verdict(
            cause="other processes",
            why=f"other processes hold {format_bytes(others)} of the device",
            missing=tried - room,
        )
    return None


def _held(tried: int, room: int, idle: int | None) -> Verdict | None:
    """What would have been enough, had it been in one piece or been given."""
    if room >= tried:
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


def others_bytes(message: Message) -> int:
    """What other processes hold: as named, or what the device has beyond all that is named.

    Only a message that counts its own process tells the others' share.
    """
    if message.others is not None:
        return message.others
    if message.capacity is None or message.process is None or message.free is None:
        return 0
    return max(message.capacity - message.free - message.process, 0)


def size_says(tried: int) -> str:
    """What the allocator's rounding hides of the tensor that was asked for, as a clause.

    A message names the segment: 2 MiB for up to 1 MiB, 20 MiB for up to 10 MiB, and whole 2 MiB
    above (PyTorch's CUDA caching allocator).
    """
    if tried == SMALL_SEGMENT:
        return "any request of up to 1 MiB takes 2 MiB: the size does not tell the tensor"
    if tried == MIDDLE_SEGMENT:
        return "any request of 1 to 10 MiB takes 20 MiB: the size does not tell the tensor"
    return ""
