"""What serving engines say when their weights or their key-value cache do not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tonnage.quantity import GIB

Engine: TypeAlias = Literal["vLLM", "SGLang", "TensorRT-LLM"]

_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"
_TOKENS = re.compile(
    r"max seq len \((\d{1,12})\) is larger than the maximum number of tokens that can be stored "
    r"in (?:the )?KV cache \((\d{1,12})\)"
)
_NEEDED = re.compile(
    rf"max seq len \((\d{{1,12}})\),? ?\(?({_NUMBER}) GiB KV cache is needed, which is "
    rf"larger than the available KV cache memory \((-?{_NUMBER}) GiB\)"
    r"(?:\. Based on the available memory, {1,2}the estimated maximum model length is (\d{1,12}))?"
)
_STARTUP = re.compile(
    rf"Free memory on device (?:\S{{1,20}} )?\(({_NUMBER})/({_NUMBER}) GiB\) "
    rf"on startup is less than desired GPU memory utilization \((\d?\.?\d{{1,4}}), "
    rf"({_NUMBER}) GiB\)"
)
_NO_BLOCKS = re.compile(r"No available memory for the cache blocks")
_SAMPLER = re.compile(r"out of memory occurred when warming up sampler with (\d{1,9}) dummy")
_SGLANG = re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static")
_SGLANG_WEIGHTS = re.compile(r"Loaded weights leave no GPU memory for the KV cache")
_TENSORRT = re.compile(
    r"Executor creation failed due to insufficient GPU memory\.\s{1,9}"
    r"The following component could not be created: ([^\n]{1,80})\n"
    rf"(?:[^\n]{{0,80}}?)Total GPU memory \(GiB\): ({_NUMBER})\n"
    rf"(?:[^\n]{{0,80}}?)Free GPU memory before component creation attempt \(GiB\): ({_NUMBER})"
)

_LONGEST: Final = 700
"""Characters from the key on that a check's message takes."""


@dataclass(frozen=True, kw_only=True)
class CacheShortage:
    """A key-value cache that is too small; bytes and tokens, None where it is not said.

    Attributes:
        what: which of an engine's checks failed, as a sentence.
        engine: whose check.
        needed: bytes of cache that one request of full length needs; of a check at the start,
            bytes that the engine is told to take.
        available: bytes that the engine has for it.
        asked_tokens: the longest request that the engine was started for.
        possible_tokens: the longest that fits.
        capacity: bytes of the device.
        sequences: requests at once that the engine was started for.
    """

    what: str
    engine: Engine = "vLLM"
    needed: int | None = None
    available: int | None = None
    asked_tokens: int | None = None
    possible_tokens: int | None = None
    capacity: int | None = None
    sequences: int | None = None


def find_shortages(
    text: str, begin: int = 0, end: int | None = None
) -> list[tuple[int, CacheShortage]]:
    """What vLLM, SGLang and TensorRT-LLM say of memory that does not suffice, and where.

    A length that fits is vLLM's own figure, or follows from the share of the bytes.

    Args:
        text: a log, or a stretch of one.
        begin: where what is wanted begins.
        end: where it no longer does; None: at the end of the text.
    """
    stop = len(text) if end is None else end
    found = (pair for check in _CHECKS for pair in _of(text, begin, stop, *check))
    return sorted(found, key=lambda pair: pair[0])


def _of(
    text: str,
    begin: int,
    end: int,
    key: str,
    pattern: re.Pattern[str],
    read: Callable[[re.Match[str]], CacheShortage],
) -> Iterator[tuple[int, CacheShortage]]:
    at = text.find(key, begin, end + len(key))
    while 0 <= at < end:
        piece = text[at : at + _LONGEST]
        # A terminal may have broken it; a line of code that raises it has it in quotes.
        match = pattern.match(piece) or pattern.match(piece.replace("\n", ""))
        if match and text[max(0, at - 1) : at] not in ('"', "'"):
            yield at, read(match)
        at = text.find(key, at + len(key), end + len(key))


def _tokens(match: re.Match[str]) -> CacheShortage:
    return CacheShortage(
        what="the cache holds fewer tokens than one request of full length",
        asked_tokens=int(match[1]),
        possible_tokens=int(match[2]),
    )


def _needed(match: re.Match[str]) -> CacheShortage:
    asked, needed, available = int(match[1]), float(match[2]), max(float(match[3]), 0.0)
    share = min(available / needed, 1.0) if needed else 0.0
    return CacheShortage(
        what="one request of full length needs more cache than there is",
        needed=round(needed * GIB),
        available=round(available * GIB),
        asked_tokens=asked,
        possible_tokens=int(match[4]) if match[4] else int(asked * share),
    )


def _startup(match: re.Match[str]) -> CacheShortage:
    free, whole, share, wanted = match.groups()
    return CacheShortage(
        what=f"{free} of {whole} GiB are free at the start, and the engine is told to take "
        f"{share} of the device",
        needed=round(float(wanted) * GIB),
        available=round(float(free) * GIB),
        capacity=round(float(whole) * GIB),
    )


def _no_blocks(_: re.Match[str]) -> CacheShortage:
    return CacheShortage(what="the weights leave no memory for any cache", available=0)


def _sampler(match: re.Match[str]) -> CacheShortage:
    return CacheShortage(
        what=f"the cache leaves no memory to sample {match[1]} requests at once",
        sequences=int(match[1]),
    )


def _sglang(_: re.Match[str]) -> CacheShortage:
    return CacheShortage(
        what="the weights leave no memory for any cache", engine="SGLang", available=0
    )


def _tensorrt(match: re.Match[str]) -> CacheShortage:
    component, whole, free = match.groups()
    return CacheShortage(
        what=f"the executor's {component.strip()} does not fit into the {free} GiB that are free",
        engine="TensorRT-LLM",
        available=round(float(free) * GIB),
        capacity=round(float(whole) * GIB),
    )


_CHECKS: Final = (
    ("max seq len (", _TOKENS, _tokens),
    ("max seq len (", _NEEDED, _needed),
    ("Free memory on device", _STARTUP, _startup),
    ("No available memory for", _NO_BLOCKS, _no_blocks),
    ("out of memory occurred when", _SAMPLER, _sampler),
    ("Not enough memory. Please", _SGLANG, _sglang),
    ("Loaded weights leave no", _SGLANG_WEIGHTS, _sglang),
    ("Executor creation failed", _TENSORRT, _tensorrt),
)
"""A literal by which each is found quickly, its wording, and what is read from it."""
