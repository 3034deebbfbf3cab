"""What one operation asks of a device, whatever the device."""

from __future__ import annotations

from dataclasses import dataclass, field

from tonnage.dtype import DType
from tonnage.errors import InputError
from tonnage.quantity import LARGEST


@dataclass(frozen=True, kw_only=True)
class Work:
    """FLOPs and the elements of the tensors that an operation reads and writes.

    Attributes:
        name: the operation, or the pattern of an einsum.
        sizes: its sizes by name, in the order in which they are written.
        flops: floating-point operations, a multiply-add being two.
        reads: elements of each tensor that is read, once.
        writes: elements of the tensor that is written, once.
        convention: how the FLOPs are counted, in words.
    """

    name: str
    sizes: dict[str, int] = field(hash=False)
    flops: int
    reads: tuple[int, ...]
    writes: int
    convention: str

    def bytes(self, number_format: DType) -> int:
        """Bytes between the device and its memory, if each tensor is moved once.

        A lower bound: what does not fit on the chip at once is moved more often.
        """
        return sum(int(number_format.storage(count)) for count in (*self.reads, self.writes))


def positive_size(name: str, value: int) -> int:
    """A size of an axis.

    Raises:
        InputError: it is zero, negative, or more than int64 holds.
    """
    if 0 < value <= LARGEST:
        return value
    problem = "is too large (the largest is 2**63 - 1)" if value > 0 else "is no size"
    raise InputError(field=name, value=value, problem=problem, accepted="a whole number, 1 or more")


def check_total(work: Work, number_format: DType) -> None:
    """Refuse an operation whose counts no longer fit in int64.

    Raises:
        InputError: the sizes multiply to more than that.
    """
    if max(work.flops, work.bytes(number_format)) > LARGEST:
        sizes = " ".join(f"{name}={size}" for name, size in work.sizes.items())
        raise InputError(
            field="SIZES",
            value=sizes,
            problem="multiply to more than 2**63 - 1 FLOP or bytes",
            accepted="smaller sizes",
        )
