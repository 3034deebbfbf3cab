"""A process that was killed, most often because the memory of its host ran out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tonnage.quantity import KIB

_SURE: Final = (
    (
        "illed process",
        re.compile(
            r"(?P<cgroup>Memory cgroup out|Out) of memory: Killed process \d{1,10} "
            r"\((?P<name>[^)\n]{1,60})\)(?:[^\n]{0,80}anon-rss:(?P<rss>\d{1,15})kB)?"
        ),
    ),
    ("oom-kill", re.compile(r"oom-kill:constraint=\w+|Detected \d+ oom-kill event")),
    ("oom_kill", re.compile(r"Detected \d+ oom_kill event")),
    ("OOMKilled", re.compile(r"OOMKilled")),
    ("low on memory", re.compile(r"due to (?:the )?node running low on memory")),
)
_CODE: Final = re.compile(
    r"exit(?:code|ed with)? ?:? ?-9\b|(?:exit|return) code ?(?:= ?-9|:? 137)\b"
)
_SIGNAL: Final = re.compile(
    r"Signal 9 \(SIGKILL\)|killed by signal: Killed|[Ss]ignal 9: SIGKILL|Signals\.SIGKILL|"
    r"terminated with signal SIGKILL"
)
_BARE: Final = re.compile(r"(?<=\n)Killed(?=\s*(?:\n|$))|line \d{1,7}: +\d{1,10} Killed\b")
_LIKELY: Final = (
    ("exitcode", _CODE),
    ("exited with", _CODE),
    ("exit code", _CODE),
    ("return code", _CODE),
    ("SIGKILL", _SIGNAL),
    ("killed by signal", _SIGNAL),
    ("\nKilled", _BARE),
    (" Killed ", _BARE),
)
_AROUND: Final = 60


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A process that was killed.

    Attributes:
        sure: the kernel, the scheduler or the runtime says that it was for memory.
        cgroup: it was a limit of the container or the job, not of the host.
        process: which; empty where it is not said.
        resident: bytes that it held; None where it is not said.
    """

    sure: bool
    cgroup: bool = False
    process: str = ""
    resident: int | None = None


def find_kills(text: str, begin: int = 0, end: int | None = None) -> list[tuple[int, Kill]]:
    """A kill that is for memory, and one that may be, in the words that tell most of it."""
    stop = len(text) if end is None else end
    found = []
    for patterns in (_SURE, _LIKELY):
        firsts = [
            first for key, pattern in patterns if (first := _first(text, begin, stop, key, pattern))
        ]
        if firsts:
            found.append((firsts[0].start(), _kill(firsts[0], patterns is _SURE)))
    return found


def _first(
    text: str, begin: int, end: int, key: str, pattern: re.Pattern[str]
) -> re.Match[str] | None:
    at = text.find(key, begin, end)
    while at >= 0:
        match = pattern.search(text, max(begin, at - _AROUND), at + 2 * _AROUND + len(key))
        if match:
            return match
        at = text.find(key, at + len(key), end)
    return None


def _kill(match: re.Match[str], sure: bool) -> Kill:
    told = match.groupdict()
    return Kill(
        sure=sure,
        cgroup=(told.get("cgroup") or "").startswith("Memory"),
        process=told.get("name") or "",
        resident=int(told["rss"]) * KIB if told.get("rss") else None,
    )
