"""The figures of one out-of-memory message, whoever worded it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.quantity import GIB, KIB, MIB, TIB

_UNITS: Final = {
    "bytes": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    # MPS divides by 1024 and writes GB.
    "kb": KIB,
    "mb": MIB,
    "gb": GIB,
}

_SIZE = r"(\d{1,20}(?:\.\d{1,6})?) ?(bytes|[KMGT]i?B)"
_START = re.compile(
    r"(?:(CUDA|HIP|NPU|XPU|MUSA|MLU) out of memory\.|(MPS) backend out of memory"
    r"|(DefaultCPUAllocator): (?:not enough memory|can't allocate memory)"
    r"|(CUDA|HIP) error: out of memory|(RESOURCE_EXHAUSTED): Out of memory)"
)
_TRIED = re.compile(
    rf"(?:[Tt]ried to allocate|trying to allocate) {_SIZE}(?! of KV)", re.IGNORECASE
)

_FIGURES: Final = {
    "capacity": (rf"{_SIZE} total capacity", rf"total capac(?:i)?ty of {_SIZE}"),
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
_DEVICE = re.compile(r"\(?(?:GPU|NPU|XPU|MUSA|MLU) (\d{1,4})(?:;| has)")

LONGEST: Final = 2000
"""Characters of a log after the start of a message that can belong to it."""

MOST: Final = 2_000
"""Messages of a log that are read: what comes after them is not looked at, and said so."""

_KEY: Final = "memory"
_BEFORE: Final = 60
"""Characters before the word that every start has within which it begins."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What an allocator said when it failed; bytes, None where the wording has no such figure.

    The figures are rounded to two decimals of their unit, as they were printed.

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
        pools: of ``allocated``, in private pools (CUDA graphs).
        allowed: the limit that the process set itself, where it has one.
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
    pools: int | None = None
    allowed: int | None = None

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


def find_messages(text: str) -> list[tuple[int, Message]]:
    """Every message of a text, with where it starts.

    Known are the wordings of PyTorch from 1.0 to 2.13 (``cached``, ``reserved in total``,
    ``capacty``, ``private pools``), of its CUDA, HIP, XPU, MPS and CPU allocators, of torch_npu,
    the bare ``CUDA error: out of memory``, and XLA's ``RESOURCE_EXHAUSTED``.
    """
    starts = list(itertools.islice(_starts(text), MOST))
    found = []
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        piece = text[start.start() : min(end, start.start() + LONGEST)]
        word = next(group for group in start.groups() if group)
        backend = {"DefaultCPUAllocator": "CPU", "RESOURCE_EXHAUSTED": "XLA"}.get(word, word)
        found.append((start.start(), _read(backend, piece)))
    return found


def _starts(text: str) -> Iterator[re.Match[str]]:
    """Where messages start: a word that they share is looked for first, which is quick."""
    seen, at = 0, text.find(_KEY)
    while at >= 0:
        end = at + len(_KEY)
        match = _START.search(text, max(seen, at - _BEFORE), end + 1)
        if match:
            yield match
            seen = match.end()
        at = text.find(_KEY, end)


def _read(backend: str, piece: str) -> Message:
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
        backend=backend,
        tried=tried,
        unit=unit,
        device_index=int(device[1]) if device else None,
        capacity=figures["capacity"],
        free=figures["free"],
        allocated=allocated,
        reserved=reserved,
        process=process,
        others=sum(others) if others else None,
        pools=figures["pools"],
        allowed=figures["allowed"] if backend != "MPS" else _mps_limit(piece),
    )


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
    match = _TRIED.search(piece) or re.search(r"you tried to allocate (\d{1,20}) (bytes)", piece)
    if match is None:
        return None, 1
    number, unit = match.groups()
    _, _, decimals = number.partition(".")
    return _bytes(number, unit), max(1, _UNITS[unit.lower()] // 10 ** len(decimals))


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
