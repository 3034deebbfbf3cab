"""An operation as people write it: a name or the pattern of an einsum."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.errors import InputError
from tonnage.intensity.einsum import einsum
from tonnage.intensity.named import NAMED, named
from tonnage.intensity.work import Work


def find_operation(text: str, sizes: Mapping[str, int]) -> Work:
    """The operation of that name or pattern, with its sizes.

    Args:
        text: a name in any case, or a pattern such as ``m k, k n -> m n``.
        sizes: the size of each axis.

    Raises:
        InputError: there is no such operation, or sizes and operation do not agree.
    """
    name = text.strip().lower()
    if name in NAMED:
        return named(name, sizes)
    if "->" in text or "," in text:
        return einsum(text, sizes)
    raise InputError(
        field="OPERATION",
        value=text,
        problem="is not an operation that Tonnage knows",
        accepted=f"{', '.join(NAMED)}, or an einsum such as m k, k n -> m n",
    )
