"""Pipeline layouts as Megatron writes them: ``Et*4|(t*4|)*14tmL``.

A chunk of the model between two bars; ``t`` a decoder layer, ``E`` the embedding, ``L`` the
head and loss, ``m`` a multi-token-prediction layer; ``x*3`` repeats a letter or a group in
brackets (Megatron-Core, transformer/pipeline_parallel_layer_layout.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tonnage.errors import InputError

LONGEST = 100_000
"""No layout has more letters than this once written out."""

_GROUP = re.compile(r"\(([^()]*)\)\*(\d{1,6})")
_LETTER = re.compile(r"([EtmL|])\*(\d{1,6})")


def chunk_layers(text: str, *, layers: int, chunks: int) -> list[int]:
    """Decoder layers of each chunk, in the order that they run.

    Args:
        text: the layout.
        layers: decoder layers that it must hold.
        chunks: chunks that it must have: pp times vpp.

    Raises:
        InputError: it is no layout, or one of another model or pipeline.
    """
    written = _write_out(text)
    parts = written.split("|")
    found = [part.count("t") for part in parts]
    if len(parts) != chunks or sum(found) != layers:
        raise _bad(text, f"has {sum(found)} layers in {len(parts)} chunks", f"{layers} in {chunks}")
    first, last = written.find("E"), written.rfind("L")
    if first > len(parts[0]) or (last >= 0 and last < len(written) - len(parts[-1])):
        raise _bad(text, "has E or L inside", "E in the first chunk, L in the last")
    return found


def chunk_count(text: str) -> int:
    """Chunks that a layout names, whatever model and pipeline it is for.

    Raises:
        InputError: it is no layout.
    """
    return _write_out(text).count("|") + 1


def _write_out(text: str) -> str:
    written = re.sub(r"[\s,]", "", text)
    for pattern in (_GROUP, _LETTER):
        while match := pattern.search(written):
            body = match.group(1) * int(match.group(2))
            written = written[: match.start()] + body + written[match.end() :]
            if len(written) > LONGEST:
                raise _bad(text, "is too long", f"up to {LONGEST} letters")
    if not re.fullmatch(r"[EtmL|]*t[EtmL|]*", written):
        raise _bad(text, "is no pipeline layout", "such as Et*4|(t*4|)*14tL")
    return written


def _bad(text: str, problem: str, accepted: str) -> InputError:
    return InputError(field="pipeline_layout", value=text, problem=problem, accepted=accepted)


def balanced(layers: int, chunks: int) -> str:
    """A layout whose chunks differ by one place at most, the ends taking a place each."""
    return written(balanced_sizes(layers, chunks))


def balanced_sizes(layers: int, chunks: int, *, ends: int = 1) -> list[int]:
    """Layers of chunks that differ by one place at most.

    Args:
        layers: decoder layers.
        chunks: how many chunks.
        ends: places that the embedding takes in the first chunk, and the head in the last.
    """
    places = layers + 2 * ends
    share, rest = divmod(places, chunks)
    sizes = [share + (index < rest) for index in range(chunks)]
    if places < chunks:
        sizes = [1] * chunks
    sizes[0] -= ends
    sizes[-1] -= ends
    return [max(size, 0) for size in sizes]


def written(sizes: Sequence[int]) -> str:
    """The layout of chunks with so many layers each.

    >>> written([1, 2, 1])
    'Et|tt|tL'
    """
    return "E" + "|".join("t" * size for size in sizes) + "L"
