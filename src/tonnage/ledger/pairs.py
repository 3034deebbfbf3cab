"""Which keys a query sees, and how many (query, key) pairs that makes.

Every count follows one convention: under the causal mask the diagonal is neglected, so
that full attention has half of the square (docs/derivations/attention.md).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from tonnage.algebra import Number, ceil_div, flops_of, minimum
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Which keys a query sees. At most one of ``window``, ``chunk`` and ``top_k`` narrows it.

    Attributes:
        causal: itself and what is before it, and nothing later.
        window: of those, so many nearest positions; None: all.
        chunk: of those, the ones in the same piece of so many positions; None: all.
        top_k: of those, so many that an indexer picked; None: all.
        ratio: positions that one key stands for (compressed blocks), less a rest that
            fills no block; None: one.
    """

    causal: bool = True
    window: Number | None = None
    chunk: Number | None = None
    top_k: Number | None = None
    ratio: Number | None = None

    def keys(self, setting: Setting) -> Number:
        """Keys that there are in one sequence, seen or not."""
        return setting.seq if self.ratio is None else setting.seq // self.ratio


ALL_BEFORE: Final = Sight()
"""Causal attention to every position."""


def twice_pairs(setting: Setting, sight: Sight) -> Number:
    """Twice the (query, key) pairs of one sequence, so that a half stays whole.

    * A limit of w keys, the nearest or the best: ``Σ min(i, w) ≈ w·s - w²/2``, which with
      w = s is the half square.
    * Chunks of c: each is a half square of its own; the last may be shorter.
    * Blocks of r positions, of which m are seen at most: ``Σ min(i/r, m) ≈ m·s - r·m²/2``.
    * Packed documents see themselves only: as many sequences of a document's length as fit.
    """
    if setting.plan.packing and setting.plan.document is not None:
        return _packed_pairs(setting, sight, setting.plan.document)
    seq = flops_of(setting.seq)
    masked = setting.causal and sight.causal
    if sight.chunk is not None:
        chunk = minimum(sight.chunk, setting.seq)
        full = ceil_div(setting.seq, chunk) - 1
        last = setting.seq - full * chunk
        squares = flops_of(full) * chunk**2 + flops_of(last) * last
        return squares if masked else 2 * squares
    seen = sight.keys(setting)
    for limit in (sight.window, sight.top_k):
        seen = seen if limit is None else minimum(limit, seen)
    twice = 2 * seq * seen
    return twice - (sight.ratio or 1) * flops_of(seen) * seen if masked else twice


def _packed_pairs(setting: Setting, sight: Sight, document: Number) -> Number:
    """The pairs of documents of one length, of which the last may be cut off."""
    alone = dataclasses.replace(setting.plan, packing=False)
    length = minimum(document, setting.seq)
    full = ceil_div(setting.seq, length) - 1
    one = dataclasses.replace(setting, plan=alone, seq=length)
    last = dataclasses.replace(setting, plan=alone, seq=setting.seq - full * length)
    return flops_of(full) * twice_pairs(one, sight) + twice_pairs(last, sight)
