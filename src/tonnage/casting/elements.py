"""Rounding to the elements of a number format, to nearest and ties to even.

ml_dtypes has the formats that numpy lacks. TF32 is in neither: it is FP32 with 13 bits of
the mantissa rounded away. Integers are rounded by numpy, for ml_dtypes truncates, and
saturate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tonnage.dtype import DType
from tonnage.errors import MissingPartError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

ELEMENTS = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "mxfp8": "float8_e4m3fn",
    "mxfp6": "float6_e2m3fn",
    "mxfp4": "float4_e2m1fn",
    "nvfp4": "float4_e2m1fn",
}
"""The type of numpy or ml_dtypes that each floating-point format's elements have."""

_LOST = 23 - 10
"""Bits of FP32's mantissa that TF32 does not have."""


def round_to(values: Floats, number_format: DType) -> Floats:
    """Values as elements of a format, without a scale; FP32 comes first, as in a tensor.

    What is too large becomes what the format has for it: infinity, NaN in E4M3, and the
    largest element where there is neither.

    Raises:
        MissingPartError: ml_dtypes is not installed.
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        if not number_format.exponent:
            low, high = -number_format.largest - 1, number_format.largest
            return np.clip(np.rint(single), low, high).astype(np.float64)
        if number_format.specials == "none":
            single = np.clip(single, -number_format.largest, number_format.largest)
        if number_format.name == "tf32":
            return np.asarray(_tf32(single), dtype=np.float64)
        rounded = single.astype(_type(ELEMENTS[number_format.name]))
        return np.asarray(rounded, dtype=np.float64)


def saturated(values: Floats, number_format: DType) -> Floats:
    """The same where the largest element stands for all that is larger."""
    import numpy as np

    largest = number_format.largest
    return round_to(np.clip(values, -largest, largest), number_format)


def _tf32(single: Any) -> Any:
    import numpy as np

    bits = single.view(np.uint32)
    half = np.uint32((1 << (_LOST - 1)) - 1)
    odd = (bits >> np.uint32(_LOST)) & np.uint32(1)
    return ((bits + half + odd) & np.uint32(~((1 << _LOST) - 1) & 0xFFFFFFFF)).view(np.float32)


def _type(name: str) -> Any:
    import numpy as np

    if hasattr(np, name):
        return getattr(np, name)
    try:
        import ml_dtypes
    except ImportError:
        raise MissingPartError(
            part="ml_dtypes", extra="formats", purpose="casting to formats that numpy lacks"
        ) from None
    return getattr(ml_dtypes, name)
