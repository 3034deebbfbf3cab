"""The words by which a failure to allocate is known in a log, whoever wrote them."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BEFORE: Final = 90
"""Characters before a key within which a wording begins."""

AFTER: Final = 40
"""Characters after a key that tell a wording from others."""

HOST: Final = "CPU"
"""The backend of what is asked of the host's memory."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """One way of saying that memory ran out.

    Attributes:
        key: a literal in it, by which it is found quickly.
        pattern: how it begins; a group, where it has one, names the backend.
        backend: whose allocator; empty: the pattern's group.
        note: what is known of a wording that has no figures, as a clause; empty: nothing.
    """

    key: str
    pattern: re.Pattern[str]
    backend: str = ""
    note: str = ""


_DRIVER: Final = (
    "the driver refused memory outside PyTorch's allocator (a context, pinned memory of the host, "
    "a graph, a library), and says not how much"
)
_LIBRARY: Final = "a library found the device full when it asked for {}"
_SIZE_LOST: Final = (
    "more than 2**60 bytes is no size of a tensor: a length or an index was overwritten or "
    "overflowed"
)

WORDINGS: Final = (
    Wording(
        key="out of memory",
        pattern=re.compile(
            r"(CUDA|HIP|NPU|XPU|MUSA|MLU) out of memory\.(?! Tried to allocate more than 1EB)"
        ),
    ),
    Wording(
        key="out of memory",
        pattern=re.compile(r"(CUDA|HIP|NPU|XPU|MUSA|MLU) out of memory\.(?= Tried to allocate m)"),
        note=_SIZE_LOST,
    ),
    Wording(key="out of memory", pattern=re.compile(r"(MPS) backend out of memory")),
    Wording(
        key="enough memory",
        pattern=re.compile(r"DefaultCPUAllocator: not enough memory"),
        backend=HOST,
    ),
    Wording(
        key="can't allocate memory",
        pattern=re.compile(r"DefaultCPUAllocator: can't allocate memory"),
        backend=HOST,
    ),
    Wording(
        key="out of memory",
        pattern=re.compile(r"(CUDA|HIP) (?:driver )?error: out of memory"),
        note=_DRIVER,
    ),
    Wording(
        key="out of memory",
        pattern=re.compile(r"cuda runtime error \(2\) : out of memory"),
        backend="CUDA",
        note=_DRIVER,
    ),
    Wording(
        key="out of memory",
        pattern=re.compile(r"CUDA runtime error in [^\n]{1,70}: out of memory"),
        backend="CUDA",
        note=_LIBRARY.format("memory (TensorRT-LLM)"),
    ),
    Wording(
        key="OUT_OF_MEMORY",
        pattern=re.compile(r"CUDA_ERROR_OUT_OF_MEMORY"),
        backend="CUDA",
        note=_DRIVER,
    ),
    Wording(
        key="allocate memory block",
        pattern=re.compile(r"can NOT allocate memory block with size larger than"),
        backend="XPU",
        note="the driver gives no single allocation of that size, however much is free",
    ),
    Wording(
        key="Out of memory",
        pattern=re.compile(r"R(?:ESOURCE_EXHAUSTED|esource exhausted): Out of memory"),
        backend="XLA",
    ),
    Wording(
        key="memory space hbm",
        pattern=re.compile(r"Ran out of memory in memory space hbm"),
        backend="XLA",
    ),
    Wording(
        key="OOM when allocating",
        pattern=re.compile(r"OOM when allocating tensor with shape"),
        backend="TensorFlow",
    ),
    Wording(
        key="GPU memory (",
        pattern=re.compile(r"Requested amount of GPU memory \("),
        backend="CUDA",
        note=_LIBRARY.format("memory (TensorRT)"),
    ),
    Wording(
        key="out of memory'",
        pattern=re.compile(r"Cuda failure (?:\d )?'out of memory'"),
        backend="NCCL",
        note=_LIBRARY.format("the buffers of a communicator (NCCL)"),
    ),
    Wording(
        key="CUDA calloc",
        pattern=re.compile(r"Failed to CUDA calloc"),
        backend="NCCL",
        note=_LIBRARY.format("the buffers of a communicator (NCCL)"),
    ),
    Wording(
        key="ALLOC_FAILED",
        pattern=re.compile(r"(?:CUBLAS|HIPBLAS|CUDNN|CUSOLVER)_STATUS_ALLOC_FAILED"),
        backend="CUDA",
        note=_LIBRARY.format("its workspace (cuBLAS or the like)"),
    ),
    Wording(
        key="AlignedAllocator",
        pattern=re.compile(
            r"Failed to allocate memory for \w{1,30} with size [^\n]{1,40}AlignedAllocator"
        ),
        backend="CUDA",
        note="a workspace of fixed size is too small for the batch (FlashInfer)",
    ),
    Wording(
        key="EL0004",
        pattern=re.compile(r"EL0004:"),
        backend="NPU",
        note=_LIBRARY.format("memory (CANN)"),
    ),
    Wording(
        key="Unable to allocate",
        pattern=re.compile(r"Unable to allocate (?=[\d.]{1,12} [KMGT]iB for an array)"),
        backend=HOST,
    ),
)
"""Where two begin at one place, the first counts."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a failure is told of, and in whose words."""

    at: int
    end: int
    backend: str
    note: str


def find_starts(text: str, begin: int, end: int) -> Iterator[Start]:
    """Where messages start that begin in a stretch of a text, in order.

    Each literal is looked for first, which is quick; a pattern is tried where one is found.
    """
    by_key = itertools.groupby(sorted(WORDINGS, key=lambda each: each.key), lambda each: each.key)
    found = [_of(text, begin, end, key, tuple(group)) for key, group in by_key]
    yield from heapq.merge(*found, key=lambda start: start.at)


def _of(
    text: str, begin: int, end: int, key: str, wordings: tuple[Wording, ...]
) -> Iterator[Start]:
    seen, at = begin, text.find(key, begin)
    while at >= 0 and at - BEFORE < end:
        stop = at + len(key) + AFTER
        for wording in wordings:
            match = wording.pattern.search(text, max(seen, at - BEFORE), stop)
            if match and match.start() < end and match.start() <= at < match.end():
                backend = wording.backend or match[1]
                yield Start(at=match.start(), end=match.end(), backend=backend, note=wording.note)
                seen = match.end()
                break
        at = text.find(key, max(at + len(key), seen))
