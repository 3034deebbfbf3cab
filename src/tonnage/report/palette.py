"""Colours of pictures."""

from __future__ import annotations

_OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_TOL = ("#882255", "#44aa99", "#999933", "#332288", "#ddcc77")
"""Colours that people who see few colours tell apart, of Okabe and Ito, and of Paul Tol."""


def colour(index: int) -> str:
    """The colour of the series of that index; after a dozen they repeat."""
    inks = _OKABE_ITO + _TOL
    return inks[index % len(inks)]
