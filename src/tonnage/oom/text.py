"""A log of any size and encoding as stretches of clean text, few at a time in memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

CHUNK: Final = 4 * 2**20
"""Bytes that are read at once."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?|[@-Z\\-_])"
)
"""What colours a terminal, moves its cursor and names its window."""

_LONGEST_ESCAPE: Final = 500
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A piece of a log.

    Attributes:
        text: it, with what comes before and after.
        begin: where what is new in it begins.
        end: where what is new ends: what follows comes again in the next stretch.
    """

    text: str
    begin: int
    end: int


def encoding(head: bytes) -> str:
    """How a log is written, by its mark, or by where its zero bytes lie."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    sample = head[:4096]
    pairs = len(sample) // 2
    if pairs and sample[1::2].count(0) > 0.4 * pairs > sample[::2].count(0):
        return "utf-16-le"
    if pairs and sample[::2].count(0) > 0.4 * pairs > sample[1::2].count(0):
        return "utf-16-be"
    return "utf-8"


def stretches(file: BinaryIO, *, before: int, after: int) -> Iterator[Stretch]:
    """A log from end to end, each stretch with what lies around it.

    Args:
        file: the log; it need not know its length.
        before: characters that a stretch shows of what came before it.
        after: characters that it shows of what follows.
    """
    held, seen, rest = "", 0, ""
    decoder = None
    while True:
        chunk = file.read(CHUNK)
        if decoder is None:
            decoder = codecs.getincrementaldecoder(encoding(chunk))(errors="replace")
        rest += decoder.decode(chunk, final=not chunk)
        # A sequence that the end of a chunk cuts waits for the next.
        cut = rest.rfind("\x1b", max(0, len(rest) - _LONGEST_ESCAPE)) if chunk else -1
        ready, rest = (rest[:cut], rest[cut:]) if cut >= 0 else (rest, "")
        held += clean(ready)
        end = max(seen, len(held) - after) if chunk else len(held)
        yield Stretch(text=held, begin=seen, end=end)
        if not chunk:
            return
        drop = max(0, end - before)
        held, seen = held[drop:], end - drop


def clean(text: str) -> str:
    """Without colours, and with a bar's returns as ends of lines."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
