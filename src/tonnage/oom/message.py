"""The figures of one out-of-memory message, whoever worded it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from dataclasses import dataclass
from typing import Final

from tonnage.oom.wordings import Start, find_starts
from tonnage.quantity import GIB, KIB, MIB, TIB

_UNITS: Final = {
    "": 1,
    "bytes": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    # MPS divides by 1024 and writes GB, XLA writes G.
    "kb": KIB,
    "mb": MIB,
    "gb": GIB,
    "k": KIB,
    "m": MIB,
    "g": GIB,
    "t": TIB,
}

_SIZE = r"(\d{1,20}(?:\.\d{1,6})?) ?(bytes|[KMGT]i?B)"
_TRIED = tuple(
    re.compile(text)
    for text in (
        rf"(?i:tried to allocate|trying to allocate|Unable to allocate) {_SIZE}(?! of KV)",
        r"you tried to allocate (\d{1,20}) (bytes)",
        r"Requested amount of GPU memory \((\d{1,20}) (bytes)\)",
        r"with size (\d{1,20})() and alignment \d{1,6} in AlignedAllocator",
        r"CUDA calloc async (\d{1,20}) (bytes)",
        # A program of XLA is compiled for all that it needs at once.
        r"in memory space hbm\. Used (\d{1,9}(?:\.\d{1,4})?)([KMGT]) of",
    )
)
_SHAPE = re.compile(r"tensor with shape ?\[([\d, ]{1,200})\] and type (\w{1,20})")
_TYPES: Final = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8}

_FIGURES: Final = {
    "capacity": (
        rf"{_SIZE} total capacity",
        rf"total capac(?:i)?ty of {_SIZE}",
        r"in memory space hbm\. Used [\d.]{1,12}[KMGT] of (\d{1,9}(?:\.\d{1,4})?)([KMGT]) hbm",
    ),
    "free": (rf"{_SIZE} free", rf"of which {_SIZE} is free"),
    "allocated": (
        rf"{_SIZE} already allocated",
        rf"{_SIZE} is allocated by PyTorch",
        rf"MPS allocated: {_SIZE}",
    ),
    "reserved": (rf"{_SIZE} reserved in total",),
    # What PyTorch up to 1.3 calls cached is what it holds beside the allocated.
    "unallocated": (rf"{_SIZE} is reserved by PyTorch but unallocated", rf"{_SIZE} cached"),
    "pools": (rf"{_SIZE} allocated in private pools",),
    "allowed": (rf"{_SIZE} allowed",),
    "process": (rf"this process has {_SIZE} memory in use",),
    "outside": (rf"other allocations: {_SIZE}",),
}
_PATTERNS: Final = {
    name: tuple(re.compile(text) for text in texts) for name, texts in _FIGURES.items()
}
_OTHERS = re.compile(rf"Process \d{{1,10}} has {_SIZE} memory in use")
_DEVICE = re.compile(r"\(?(?:GPU|NPU|XPU|MUSA|MLU) {1,2}(\d{1,4})(?:;| has)")

LONGEST: Final = 2000
"""Characters of a log after the start of a message that can belong to it."""

MOST: Final = 2_000
"""Messages of a log that are read: what comes after them is not looked at, and said so."""

_NEXT = re.compile(r"\n[^\n]{0,200}(?:Traceback|File \"|out of memory)|\n\s*\n")
"""Where a message that was broken into lines is over at the latest."""

_BREAK = re.compile(r"\s*\n(?:\S{0,40}\d{2}:\d{2}:\d{2}\S{0,20} )?\s*")
"""A break in a message, with the time that a log puts before a line."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What an allocator said when it failed; bytes, None where the wording has no such figure.

    The figures are rounded to two decimals of their unit, as they were printed. A figure that
    cannot be (more than the device has, or 0 bytes in use by a process that holds tensors, as
    drivers tell a container) is None.

    Attributes:
        backend: whose allocator: CUDA, HIP, NPU, XPU, MPS, CPU, …
        tried: the segment that it asked the device for, and so an upper bound of the tensor.
        unit: of the last digit of ``tried``: what the tensor's size is known to.
        device_index: which device of the process.
        capacity: of the device.
        free: on the device, for anyone.
        allocated: held by tensors.
        reserved: held by the allocator, tensors included.
        process: held by this process, contexts and libraries included.
        others: held by other processes on the device.
        count_others: how many other processes are named.
        pools: of ``allocated``, in private pools (CUDA graphs).
        allowed: the limit that the process set itself, where it has one.
        note: what is known of a wording without figures; empty: nothing.
    """

    backend: str
    tried: int | None = None
    unit: int = 1
    device_index: int | None = None
    capacity: int | None = None
    free: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    process: int | None = None
    others: int | None = None
    count_others: int = 0
    pools: int | None = None
    allowed: int | None = None
    note: str = ""

    @property
    def unallocated(self) -> int | None:
        """What the allocator holds and no tensor uses."""
        if self.reserved is None or self.allocated is None:
            return None
        return max(self.reserved - self.allocated, 0)

    @property
    def beyond(self) -> int | None:
        """What the process holds outside its allocator: context, libraries, communicators."""
        if self.process is None or self.reserved is None:
            return None
        return max(self.process - self.reserved, 0)

    @property
    def elsewhere(self) -> int | None:
        """What is neither free nor this allocator's, where no process is named."""
        if self.process is not None or self.others is not None:
            return None
        if self.capacity is None or self.free is None or self.reserved is None:
            return None
        return max(self.capacity - self.free - self.reserved, 0)


def find_messages(text: str, begin: int = 0, end: int | None = None) -> list[tuple[int, Message]]:
    """Every message of a text, with where it starts; `MOST` at most.

    Known are the wordings of PyTorch from 0.4 to 2.13 (``cached``, ``reserved in total``,
    ``capacty``, ``private pools``), of its CUDA, HIP, XPU, MPS and CPU allocators, of torch_npu,
    XLA and TensorFlow, and what a driver, NCCL, cuBLAS, TensorRT or CANN say without figures.

    Args:
        text: a log, or a stretch of one.
        begin: where messages begin that are wanted.
        end: where they no longer do; None: at the end of the text.
    """
    stop = len(text) if end is None else end
    starts = list(itertools.islice(find_starts(text, begin, stop), MOST))
    found = []
    for index, start in enumerate(starts):
        after = starts[index + 1].at if index + 1 < len(starts) else len(text)
        piece = text[start.at : min(after, start.at + LONGEST)]
        found.append((start.at, _read(start, piece)))
    return found


def _read(start: Start, piece: str) -> Message:
    """The message on its line; where the line has no figures, on the next ones, too."""
    line, _, _ = piece.partition("\n")
    message = _figures(start, line)
    if "\n" in piece and message.allocated is None:
        over = _NEXT.search(piece)
        joined = _BREAK.sub(" ", piece[: over.start() if over else len(piece)])
        longer = _figures(start, joined)
        if longer.tried is not None:
            message = longer
    return _plausible(message)


def _figures(start: Start, piece: str) -> Message:
    figures = {name: _figure(patterns, piece) for name, patterns in _PATTERNS.items()}
    allocated, reserved = figures["allocated"], figures["reserved"]
    unallocated = figures.pop("unallocated")
    if reserved is None and allocated is not None and unallocated is not None:
        reserved = allocated + unallocated
    process, outside = figures["process"], figures.pop("outside")
    if process is None and allocated is not None and outside is not None:
        process, reserved = allocated + outside, allocated
    tried, unit = _tried(piece)
    others = [_bytes(*match.groups()) for match in _OTHERS.finditer(piece)]
    if process is None:
        process = _own(others, reserved, figures["capacity"])
        others = [each for each in others if each != process]
    device = _DEVICE.search(piece)
    return Message(
        backend=start.backend,
        tried=tried,
        unit=unit,
        device_index=int(device[1]) if device else None,
        capacity=figures["capacity"],
        free=figures["free"],
        allocated=allocated,
        reserved=reserved,
        process=process,
        others=sum(others) if others else None,
        count_others=len(others),
        pools=figures["pools"],
        allowed=figures["allowed"] if start.backend != "MPS" else _mps_limit(piece),
        note=start.note,
    )


def _plausible(message: Message) -> Message:
    """Without figures that cannot be: drivers tell 2**64 bytes, or none, of what they ignore."""
    most, process = message.capacity, message.process
    if most is not None and process is not None and process > most:
        process = None
    if process is not None and process < (message.allocated or 0) and message.backend != "MPS":
        process = None
    others = message.others
    if most is not None and others is not None and others > most:
        others = None
    return dataclasses.replace(message, process=process, others=others)


def _own(named: list[int], reserved: int | None, capacity: int | None) -> int | None:
    """The process that failed, where it could not find its own number (in a container).

    It is told by its size: the device has no room for the allocator's memory beside it.
    """
    if reserved is None or capacity is None or sum(named) + reserved <= capacity:
        return None
    return min((each for each in named if each >= reserved), default=None)


def _mps_limit(piece: str) -> int | None:
    return _figure((re.compile(rf"max allowed: {_SIZE}"),), piece)


def _tried(piece: str) -> tuple[int | None, int]:
    """The size that was asked for, and the value of its last printed digit."""
    match = next((found for each in _TRIED if (found := each.search(piece))), None)
    if match is None:
        return _of_shape(piece), 1
    number, unit = match.groups()
    _, _, decimals = number.partition(".")
    return _bytes(number, unit), max(1, _UNITS[unit.lower()] // 10 ** len(decimals))


def _of_shape(piece: str) -> int | None:
    """The bytes of a tensor that is told by its shape (TensorFlow)."""
    match = _SHAPE.search(piece)
    if match is None or match[2] not in _TYPES:
        return None
    return math.prod(int(each) for each in match[1].split(",") if each.strip()) * _TYPES[match[2]]


def _figure(patterns: tuple[re.Pattern[str], ...], piece: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(piece)
        if match:
            return _bytes(*match.groups())
    return None


def _bytes(number: str, unit: str) -> int:
    whole, _, decimals = number.partition(".")
    scale: int = 10 ** len(decimals)
    return int(whole + decimals) * _UNITS[unit.lower()] // scale
