"""Seconds of a matrix product, from its shape.

``C[m, n] += A[m, k] B[k, n]``, so many copies of it. A kernel cuts C into tiles and each
multiprocessor works through its share of them, one after another: a last wave that fills
only some of the multiprocessors takes as long as a full one. Where there are too few tiles,
the depth k is split and the pieces are summed. A library picks the tile and the split, so
the time is that of the best pair of a short list (NVIDIA, *Matrix Multiplication Background
User's Guide*, sections on tile and wave quantization; *Stream-K*, arXiv 2301.03598, on splits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tonnage.algebra import Number, ceil_div, is_array, maximum, minimum, smallest
from tonnage.timing.known import Known

TILES: Final = (
    (256, 128),
    (128, 256),
    (192, 128),
    (128, 192),
    (128, 128),
    (256, 64),
    (64, 256),
    (128, 64),
    (64, 128),
    (64, 64),
    (32, 128),
    (16, 128),
)
"""Rows and columns of C that one multiprocessor makes at a time: the shapes that CUTLASS and
cuBLAS ship for 16-bit operands."""

SPLITS: Final = (1, 2, 4, 8, 16)
"""Pieces that the depth is cut into."""

DEPTH: Final = 64
"""Depth of one step of the inner loop: k is padded to it."""

SHARPNESS: Final = 6
"""How abruptly the slower of compute and memory takes over: ``(a^6 + b^6)^(1/6)`` is 12 % over
either where they are equal, and the larger alone where they are not."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A matrix product's shape, in elements, and the bytes of one.

    Attributes:
        rows: rows of A and of C, m.
        columns: columns of B and of C, n.
        depth: what is summed over, k.
        copies: products of this shape in one launch (experts, heads).
        operand_bytes: bytes of an element of A and of B.
        result_bytes: bytes that C moves for each element.
    """

    rows: Number
    columns: Number
    depth: Number
    copies: Number = 1
    operand_bytes: float = 2.0
    result_bytes: float = 2.0

    @property
    def flops(self) -> Number:
        """Two for each multiply-add."""
        return 2.0 * self.rows * self.columns * self.depth * self.copies

    @property
    def bytes(self) -> Number:
        """A and B read once, C written."""
        operands = (self.rows + self.columns) * self.depth * self.operand_bytes
        return self.copies * (operands + self.rows * self.columns * self.result_bytes)


@dataclass(frozen=True, kw_only=True)
class ProductRates:
    """What a device does for one kind of product.

    Attributes:
        multiprocessors: how many work on tiles at once.
        flops: FLOP/s of all of them, once a tile is under way.
        memory: bytes per second from and to memory.
        feed: bytes per second of operands into one multiprocessor, from cache.
        start: seconds of a kernel beside its tiles.
        wave: seconds of a tile beside its multiply-adds: filling the pipeline, writing C.
        split: seconds to sum the pieces of a split depth, beside their bytes.
    """

    multiprocessors: int
    flops: float
    memory: float
    feed: float
    start: float
    wave: float
    split: float


def product_seconds(product: Product, rates: ProductRates) -> Number:
    """Seconds of one launch: the best tile and split."""
    shape = (product.rows, product.columns, product.depth, product.copies)
    if any(map(is_array, shape)):
        return _columns(product.operand_bytes, product.result_bytes, rates)(*shape)
    return _one(product, rates)


@lru_cache(maxsize=4096)
def _one(product: Product, rates: ProductRates) -> Number:
    """One product's time, once: a step asks for the same few shapes again and again."""
    return _best(product, rates)


@lru_cache(maxsize=64)
def _columns(operand_bytes: float, result_bytes: float, rates: ProductRates) -> Known:
    """The times of products whose elements have so many bytes, by rows, columns, depth, copies."""

    def seconds(rows: Number, columns: Number, depth: Number, copies: Number) -> Number:
        product = Product(
            rows=rows,
            columns=columns,
            depth=depth,
            copies=copies,
            operand_bytes=operand_bytes,
            result_bytes=result_bytes,
        )
        return _best(product, rates)

    return Known(seconds)


def _best(product: Product, rates: ProductRates) -> Number:
    memory = product.bytes / rates.memory
    return rates.start + smallest(_split(product, rates, split, memory) for split in SPLITS)


def _split(product: Product, rates: ProductRates, split: int, memory: Number) -> Number:
    """Seconds under one split and the tile that is best for it, without the kernel's start."""
    compute = _best_tile(product, rates, split)
    both = (compute**SHARPNESS + memory**SHARPNESS) ** (1 / SHARPNESS)
    if split == 1:
        return both
    pieces = 8.0 * split * product.rows * product.columns * product.copies
    return both + rates.split + pieces / (rates.multiprocessors * rates.feed)


def _best_tile(product: Product, rates: ProductRates, split: int) -> Number:
    """Seconds under the best tile; of columns all tiles at once, a row each."""
    if not is_array(product.rows):
        return smallest(_tiled(product, rates, tile, split) for tile in TILES)
    import numpy as np

    high, wide = np.array(TILES).T[:, :, np.newaxis]
    return _tiled(product, rates, (high, wide), split).min(axis=0)


def _tiled(
    product: Product, rates: ProductRates, tile: tuple[Number, Number], split: int
) -> Number:
    """Seconds of all waves under one tile and split, memory apart."""
    high, wide = tile
    tiles = ceil_div(product.rows, high) * ceil_div(product.columns, wide) * product.copies
    waves = ceil_div(tiles * split, rates.multiprocessors)
    depth = ceil_div(product.depth, split * DEPTH) * DEPTH
    multiply = 2.0 * high * wide * depth * rates.multiprocessors / rates.flops
    load = (minimum(high, product.rows) + wide) * depth * product.operand_bytes / rates.feed
    return waves * (maximum(multiply, load) + rates.wave)
