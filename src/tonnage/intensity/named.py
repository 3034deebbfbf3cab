"""Operations that have a name: what each counts, and the sizes that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.intensity.work import Work, positive_size

Counts = tuple[int, tuple[int, ...], int]
"""FLOPs, elements of each tensor that is read, and elements that are written."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """An operation with a name.

    Attributes:
        sizes: the sizes that it takes, in order.
        counts: from the sizes, in that order, to FLOPs and elements.
        convention: how the FLOPs are counted, in words.
        square: sizes that are left out are those of ``n``.
    """

    sizes: tuple[str, ...]
    counts: Callable[..., Counts]
    convention: str
    square: bool = False


def _elementwise(flops: int) -> Callable[..., Counts]:
    """An operation that reads n elements, writes n, and spends so many FLOPs on each."""
    return lambda n: (flops * n, (n,), n)


def _attention(batch: int, seq: int, heads: int, head_dim: int) -> Counts:
    elements = batch * seq * heads * head_dim
    return 4 * seq * elements, (elements, elements, elements), elements


NAMED: dict[str, Named] = {
    "relu": Named(
        sizes=("n",), counts=_elementwise(1), convention="1 FLOP an element, a comparison"
    ),
    # The tanh form has 8 additions and multiplications; a tanh by exponentials has the rest.
    "gelu": Named(
        sizes=("n",),
        counts=_elementwise(20),
        convention="20 FLOP an element, the tanh form with its exponentials",
    ),
    "softmax": Named(
        sizes=("n",),
        counts=_elementwise(5),
        convention="5 FLOP an element: maximum, subtraction, exponential, sum, division",
    ),
    # Its scale and shift are shared by all rows, and are too small to count as bytes.
    "layernorm": Named(
        sizes=("n",),
        counts=_elementwise(8),
        convention="8 FLOP an element: mean, subtraction, square, sum, division by the "
        "deviation (2), scale, shift",
    ),
    "dot": Named(
        sizes=("n",),
        counts=lambda n: (2 * n, (n, n), 1),
        convention="a multiplication and an addition an element",
    ),
    "matvec": Named(
        sizes=("m", "n"),
        counts=lambda m, n: (2 * m * n, (m * n, n), m),
        convention="2·m·n FLOP; a matrix of m x n times a vector of n",
        square=True,
    ),
    "matmul": Named(
        sizes=("m", "n", "k"),
        counts=lambda m, n, k: (2 * m * n * k, (m * k, k * n), m * n),
        convention="2·m·n·k FLOP; m x k times k x n",
        square=True,
    ),
    "attention": Named(
        sizes=("batch", "seq", "heads", "head_dim"),
        counts=_attention,
        convention="4·batch·heads·seq²·head_dim FLOP: two products over the whole square, the "
        "softmax not counted; fused, so that scores move no bytes",
    ),
}


def named(name: str, sizes: Mapping[str, int]) -> Work:
    """A named operation of given sizes.

    Raises:
        InputError: a size is missing, superfluous or no size.
    """
    entry = NAMED[name]
    for given in sizes:
        if given not in entry.sizes:
            raise InputError(
                field=given,
                value=sizes[given],
                problem=f"is no size of {name}",
                accepted=", ".join(entry.sizes),
            )
    known = {size: _size(name, entry, size, sizes) for size in entry.sizes}
    flops, reads, writes = entry.counts(*known.values())
    return Work(
        name=name,
        sizes=known,
        flops=flops,
        reads=reads,
        writes=writes,
        convention=entry.convention,
    )


def _size(name: str, entry: Named, size: str, sizes: Mapping[str, int]) -> int:
    value = sizes.get(size, sizes.get("n") if entry.square else None)
    if value is None:
        wanted = " ".join(f"{each}=N" for each in entry.sizes)
        raise InputError(
            field="SIZES",
            value=size,
            problem=f"is missing, a size of {name}",
            accepted=f"{wanted}, or n=N for all" if entry.square else wanted,
        )
    return positive_size(size, value)
