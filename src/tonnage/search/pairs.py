"""Pairs of a layout and a row of degrees, and sums over the layers of their stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonnage.search.costs import Floats
from tonnage.search.layouts import Ints

Index = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Layouts with rows of degrees: one entry a pair.

    Attributes:
        layout: which layout.
        row: which row of degrees.
        shard: which shard of a row's states (`tonnage.search.pieces.Held`).
    """

    layout: Index
    row: Index
    shard: Index

    def __len__(self) -> int:
        """How many pairs."""
        return len(self.layout)

    def where(self, kept: NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        return Pairs(layout=self.layout[kept], row=self.row[kept], shard=self.shard[kept])


def spread(counts: Ints, pairs: Pairs, each: Floats) -> Floats:
    """Sums over kinds of layers: ``[layout, stage, kind]`` times ``[kind, pair]``, by pair."""
    summed = np.zeros((len(pairs), counts.shape[1]))
    for kind, size in enumerate(each):
        summed += counts[pairs.layout, :, kind] * size[:, None]
    return summed
