"""What serving engines say when their key-value cache does not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tonnage.quantity import GIB

_TOKENS = re.compile(
    r"max seq len \((\d{1,12})\) is larger than the maximum number of tokens that can be stored "
    r"in (?:the )?KV cache \((\d{1,12})\)"
)
_NEEDED = re.compile(
    r"max seq len \((\d{1,12})\),? ?\(?(\d{1,9}(?:\.\d{1,4})?) GiB KV cache is needed, which is "
    r"larger than the available KV cache memory \((-?\d{1,9}(?:\.\d{1,4})?) GiB\)"
    r"(?:\. Based on the available memory, the estimated maximum model length is (\d{1,12}))?"
)
_STARTUP = re.compile(
    r"Free memory on device (?:\S{1,20} )?\((\d{1,6}(?:\.\d{1,4})?)/(\d{1,6}(?:\.\d{1,4})?) GiB\) "
    r"on startup is less than desired GPU memory utilization \((\d?\.?\d{1,4}), "
    r"(\d{1,6}(?:\.\d{1,4})?) GiB\)"
)
_NO_BLOCKS = re.compile(r"No available memory for the cache blocks")


@dataclass(frozen=True, kw_only=True)
class CacheShortage:
    """A key-value cache that is too small; bytes and tokens, None where it is not said.

    Attributes:
        what: which of an engine's checks failed, as a sentence.
        needed: bytes of cache that one request of full length needs.
        available: bytes that the engine has for the cache.
        asked_tokens: the longest request that the engine was started for.
        possible_tokens: the longest that fits.
    """

    what: str
    needed: int | None = None
    available: int | None = None
    asked_tokens: int | None = None
    possible_tokens: int | None = None


def find_shortages(text: str) -> list[tuple[int, CacheShortage]]:
    """What vLLM says of a cache that does not fit, with where it starts.

    A length that fits is vLLM's own figure, or follows from the share of the bytes.
    """
    found = [(m.start(), _tokens(m)) for m in _TOKENS.finditer(text)]
    found += [(m.start(), _needed(m)) for m in _NEEDED.finditer(text)]
    found += [(m.start(), _startup(m)) for m in _STARTUP.finditer(text)]
    found += [
        (m.start(), CacheShortage(what="the weights leave no memory for any cache", available=0))
        for m in _NO_BLOCKS.finditer(text)
    ]
    return sorted(found, key=lambda pair: pair[0])


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
    )
