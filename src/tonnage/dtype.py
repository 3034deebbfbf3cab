"""Number formats: bits, range, resolution, and the scales that blocks of elements share.

Floating-point formats follow IEEE 754 where nothing else is said; the 8-bit ones follow
"OCP 8-bit Floating Point Specification" (OFP8, revision 1.0) and the block formats "OCP
Microscaling Formats" (MX, version 1.0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tonnage.algebra import Number, ceil_div
from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class DType:
    """A number format, as it is stored and as it is multiplied.

    Attributes:
        name: the canonical name.
        bits: storage of one element, without its share of a scale.
        exponent: exponent bits; 0 for integers and for NF4.
        mantissa: explicit mantissa bits; 0 for integers and for NF4.
        peak: the key into a device's table of peaks: the rate at which tensor cores
            multiply this format, or the format it is turned into first.
        specials: which bit patterns are no numbers. ``ieee``: the whole top exponent
            (infinities and NaNs). ``nan``: only the pattern of all ones (OFP8's E4M3).
            ``none``: every pattern is a number (the elements of MX below 8 bits, integers).
        block: elements that share one scale; 0 where there is none.
        scale_bits: storage of one such scale.
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    peak: str
    specials: Literal["ieee", "nan", "none"] = "ieee"
    block: int = 0
    scale_bits: int = 0

    @property
    def bytes(self) -> float:
        """Storage of one element in bytes, with its share of the block's scale.

        An int where it is whole. All others here are exact in binary (9/16 for NVFP4);
        what a tensor occupies, with its last block incomplete, is `storage`.
        """
        bits = self.bits + (self.scale_bits / self.block if self.block else 0)
        return bits // 8 if isinstance(bits, int) and bits % 8 == 0 else bits / 8

    def storage(self, elements: Number) -> Number:
        """Bytes that a tensor of so many elements occupies, scales included.

        Elements below a byte are packed; the last byte and the last block are rounded up.
        """
        if self.bits % 8 == 0 and not self.block:
            return elements * (self.bits // 8)
        stored = ceil_div(elements * self.bits, 8)
        if not self.block:
            return stored
        return stored + ceil_div(ceil_div(elements, self.block) * self.scale_bits, 8)

    @property
    def effective_bits(self) -> float:
        """Bits of one element with its share of the block's scale: 4.25 for MXFP4."""
        return 8.0 * self.bytes

    @property
    def epsilon(self) -> float | None:
        """The distance from 1 to the next larger number; None for NF4, which has no 1 + x."""
        if self.name == "nf4":
            return None
        return 2.0**-self.mantissa

    @property
    def largest(self) -> float:
        """The largest finite element (before any scale): 65504 for FP16, 448 for E4M3."""
        if self.name == "nf4":
            return 1.0
        if not self.exponent:
            return float(2 ** (self.bits - 1) - 1)
        top = 2**self.exponent - 1 - self._bias - (self.specials == "ieee")
        lost = 2 if self.specials == "nan" else 1
        return float((2 - lost * 2.0**-self.mantissa) * 2.0**top)

    @property
    def overflows_at(self) -> float:
        """From here on what is rounded to nearest is more than the largest element."""
        top = math.frexp(self.largest)[1] - 1
        half = 2.0 ** (top - self.mantissa - 1) if self.exponent else 0.5
        return self.largest + half

    @property
    def smallest_normal(self) -> float | None:
        """The smallest positive element with the whole mantissa; None where none is floating."""
        return float(2.0 ** (1 - self._bias)) if self.exponent else None

    @property
    def smallest_subnormal(self) -> float | None:
        """The smallest positive element: what is less than half of it becomes 0."""
        normal = self.smallest_normal
        return None if normal is None else normal * 2.0**-self.mantissa

    @property
    def _bias(self) -> int:
        return int(2 ** (self.exponent - 1) - 1)


DTYPES: tuple[DType, ...] = (
    DType(name="fp32", bits=32, exponent=8, mantissa=23, peak="fp32"),
    # TF32 is a way of multiplying: a tensor of it is stored as FP32.
    DType(name="tf32", bits=32, exponent=8, mantissa=10, peak="tf32"),
    DType(name="fp16", bits=16, exponent=5, mantissa=10, peak="fp16"),
    DType(name="bf16", bits=16, exponent=8, mantissa=7, peak="bf16"),
    # OFP8. One scale per tensor is common and too small to count here; scales
    # per tile of 1 x 128 (DeepSeek-V3) are a property of the recipe, not of the format.
    DType(name="fp8_e4m3", bits=8, exponent=4, mantissa=3, peak="fp8", specials="nan"),
    DType(name="fp8_e5m2", bits=8, exponent=5, mantissa=2, peak="fp8"),
    # What DeepSeek-V3 keeps attention's outputs in (arXiv 2412.19437, section 3.3.3): stored, and
    # turned into FP8 to be multiplied.
    DType(name="e5m6", bits=12, exponent=5, mantissa=6, peak="fp8"),
    # MX: 32 elements share one E8M0 scale. The specification allows two kinds of element
    # for MXFP8 and MXFP6; here they have E4M3 and E2M3, those with more resolution.
    DType(
        name="mxfp8",
        bits=8,
        exponent=4,
        mantissa=3,
        peak="fp8",
        specials="nan",
        block=32,
        scale_bits=8,
    ),
    DType(
        name="mxfp6",
        bits=6,
        exponent=2,
        mantissa=3,
        peak="fp6",
        specials="none",
        block=32,
        scale_bits=8,
    ),
    DType(
        name="mxfp4",
        bits=4,
        exponent=2,
        mantissa=1,
        peak="fp4",
        specials="none",
        block=32,
        scale_bits=8,
    ),
    # 16 E2M1 elements share one E4M3 scale, and a tensor one FP32 scale that is not
    # counted ("Pretraining Large Language Models with NVFP4", arXiv 2509.25149, section 2).
    DType(
        name="nvfp4",
        bits=4,
        exponent=2,
        mantissa=1,
        peak="fp4",
        specials="none",
        block=16,
        scale_bits=8,
    ),
    DType(name="int8", bits=8, exponent=0, mantissa=0, peak="int8", specials="none"),
    # The 4-bit integer formats hold weights only and are multiplied in bf16. INT4 is the
    # bare element: the size of its groups is the quantiser's (GPTQ and AWQ: 128).
    DType(name="int4", bits=4, exponent=0, mantissa=0, peak="bf16", specials="none"),
    # QLoRA (arXiv 2305.14314, section 3): 64 elements share one FP32 scale. Its double
    # quantisation, which brings 0.5 bits an element down to 0.127, is not counted.
    DType(
        name="nf4",
        bits=4,
        exponent=0,
        mantissa=0,
        peak="bf16",
        specials="none",
        block=64,
        scale_bits=32,
    ),
)

_ALIASES = {
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "tensorfloat32": "tf32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3",
    "float8": "fp8_e4m3",
    "e4m3": "fp8_e4m3",
    "e4m3fn": "fp8_e4m3",
    "float8_e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
    "fp4": "nvfp4",
}
_BY_NAME = {entry.name: entry for entry in DTYPES}


def dtype(name: str, *, field: str = "dtype") -> DType:
    """The format of that name; ``torch.``, case and ``-`` for ``_`` do not matter.

    Raises:
        InputError: for a name that is not known.
    """
    key = name.strip().lower().removeprefix("torch.").replace("-", "_")
    found = _BY_NAME.get(_ALIASES.get(key, key))
    if found is None:
        raise InputError(
            field=field,
            value=name,
            problem="is not a number format that Tonnage knows",
            accepted=", ".join(_BY_NAME),
        )
    return found
