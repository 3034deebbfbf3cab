"""Values of a costly function of a few numbers, kept and looked up by columns.

A search asks for the same few hundred products of matrices in columns of a hundred thousand
plans, under one pipeline and choice after another. Each distinct row is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST: Final = 1_000_000
"""Rows that are kept; past them all are forgotten, and worked out anew."""


class Known:
    """What a function of some columns is on every row that it was asked for.

    A row is known by a code of 64 bits mixed from those of its numbers; the numbers are kept,
    and rows that share a code with others are worked out by themselves.
    """

    _codes: NDArray[np.uint64]
    _rows: NDArray[np.float64]
    _found: NDArray[np.float64]

    def __init__(self, function: Callable[..., NDArray[np.float64]]) -> None:
        """Know nothing yet.

        Args:
            function: of arrays of equal length, element by element.
        """
        self._function = function
        self._forget()

    def __call__(self, *values: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """The function's values, row by row; at least one of the values must be an array."""
        import numpy as np

        columns = [np.asarray(value, dtype=np.float64) for value in values]
        rows = np.stack(np.broadcast_arrays(*columns))
        code = _mixed(rows)
        place, new = self._find(code)
        if new.any():
            self._learn(rows, code, new)
            place, _ = self._find(code)
        found = self._found[place]
        other = (self._rows[:, place] != rows).any(axis=0)
        if other.any():
            found[other] = self._function(*rows[:, other])
        return found

    def _find(self, code: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where codes are, and which are not there."""
        import numpy as np

        if not len(self._codes):
            return np.zeros(len(code), dtype=np.intp), np.ones(len(code), dtype=bool)
        place = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        return place, self._codes[place] != code

    def _learn(
        self, rows: NDArray[np.float64], code: NDArray[np.uint64], new: NDArray[np.bool_]
    ) -> None:
        """Work out the rows whose codes are new."""
        import numpy as np

        if len(self._codes) > MOST:
            self._forget()
            new = np.ones(len(code), dtype=bool)
        codes, first = np.unique(code[new], return_index=True)
        fresh = rows[:, np.flatnonzero(new)[first]]
        every = np.concatenate([self._rows, fresh], axis=1) if len(self._codes) else fresh
        codes = np.concatenate([self._codes, codes])
        found = np.concatenate([self._found, self._function(*fresh)])
        order = np.argsort(codes)
        self._codes, self._rows, self._found = codes[order], every[:, order], found[order]

    def _forget(self) -> None:
        import numpy as np

        self._codes = np.empty(0, dtype=np.uint64)
        self._rows = np.empty((0, 0))
        self._found = np.empty(0)


def _mixed(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The bits of every row's numbers, mixed (the multiplier of Fibonacci hashing)."""
    import numpy as np

    code = np.zeros(rows.shape[1], dtype=np.uint64)
    for column in rows.view(np.uint64):
        code = (code ^ column) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code
