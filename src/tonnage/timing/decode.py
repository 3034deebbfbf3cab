"""Seconds of decode attention: one new query token against the keys and values before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.algebra import Number, ceil_div, maximum, where
from tonnage.cluster import Device


@dataclass(frozen=True, kw_only=True)
class DecodeRates:
    """What a decode kernel does on a device; the work is cut into pieces of the cache.

    Attributes:
        start: seconds of the kernel beside its pieces.
        memory: share of memory bandwidth on a long cache.
        piece: positions of the cache that one multiprocessor takes at a time.
        wave: seconds of a piece, where so few pieces are that bandwidth is no limit.
        cached: bandwidth over the memory's, where all of the cache lies in L2; 1: no gain.
    """

    start: float
    memory: float
    piece: int
    wave: float
    cached: float = 1.0


DECODE_RATES: Final[dict[tuple[str, int], DecodeRates]] = {
    ("fa3", 2): DecodeRates(start=8.85e-6, memory=0.89, piece=640, wave=3.5e-6),
    ("fa3", 1): DecodeRates(start=10.5e-6, memory=0.78, piece=640, wave=3.7e-6),
    ("flashinfer", 2): DecodeRates(start=5.1e-6, memory=1.0, piece=294, wave=1.6e-6),
    ("flashinfer", 1): DecodeRates(start=4.9e-6, memory=0.86, piece=1170, wave=1.25e-6),
    ("trtllm", 2): DecodeRates(start=8.4e-6, memory=1.0, piece=295, wave=1.7e-6, cached=1.2),
    ("trtllm", 1): DecodeRates(start=9.3e-6, memory=0.93, piece=588, wave=1.4e-6, cached=1.1),
    ("fa2", 2): DecodeRates(start=8.4e-6, memory=0.81, piece=196, wave=4.0e-6, cached=2.6),
    ("fa2", 1): DecodeRates(start=9.5e-6, memory=0.79, piece=861, wave=2.7e-6, cached=3.0),
}
"""By kernel and bytes of an element of the cache: FlashAttention-3 (Hopper), FlashInfer and
TensorRT-LLM's (Blackwell), FlashAttention-2 and FlashInfer's of its generation (Ada). Of
12,000 kernels under vLLM 0.22 and 0.24."""

L2_SHARE: Final = 0.6
"""Share of L2 up to which a cache stays there from one step to the next."""


@dataclass(frozen=True, kw_only=True)
class Decode:
    """A decode step's attention on one device.

    Attributes:
        batch: sequences.
        length: positions before the new one.
        heads: query heads.
        kv_heads: key and value heads.
        width: of a head.
        kv_bytes: bytes of an element of the cache.
    """

    batch: Number
    length: Number
    heads: Number
    kv_heads: Number
    width: Number
    kv_bytes: int


def decode_kernel(device: Device) -> str:
    """The kernel that vLLM picks on a device."""
    if device.architecture.startswith("sm10"):
        return "flashinfer"
    return "fa3" if device.architecture == "sm90" else "fa2"


def decode_seconds(
    shape: Decode, device: Device, kernel: str | None = None, l2_bytes: float = 50e6
) -> Number:
    """The cache read once at bandwidth, beside the waves of its pieces."""
    rates = DECODE_RATES[kernel or decode_kernel(device), shape.kv_bytes]
    cache = 2 * shape.batch * shape.kv_heads * shape.length * shape.width * shape.kv_bytes
    moved = cache + 4 * shape.batch * shape.heads * shape.width
    gain = where(moved < L2_SHARE * l2_bytes, rates.cached, 1.0)
    read = moved / (rates.memory * device.bandwidth * gain)
    pieces = ceil_div(shape.length, rates.piece) * shape.batch * shape.kv_heads
    waves = maximum(ceil_div(pieces, device.multiprocessors or 128), 1)
    return rates.start + (read**2 + (waves * rates.wave) ** 2) ** 0.5
