"""One operation on a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.quantity import format_bytes, format_flops, format_rate, format_seconds
from tonnage.report.layout import bullets, console, facts, heading, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.intensity import Bounded


def operation_json(answer: Bounded) -> dict[str, object]:
    """An operation as JSON takes it, in FLOPs, bytes and seconds."""
    work = answer.work
    return {
        "operation": work.name,
        "sizes": dict(work.sizes),
        "device": answer.device,
        "dtype": answer.dtype,
        "flops": work.flops,
        "bytes": answer.bytes,
        "intensity": answer.intensity,
        "ridge": answer.ridge,
        "bound": answer.bound,
        "seconds": answer.seconds,
        "compute_seconds": answer.compute_seconds,
        "memory_seconds": answer.memory_seconds,
        "peak": answer.peak,
        "bandwidth": answer.bandwidth,
        "convention": work.convention,
    }


def print_operation(answer: Bounded, screen: Console | None = None) -> None:
    """Print the verdict, and the figures that it follows from."""
    screen = screen or console()
    work = answer.work
    print_block(screen, f"{answer.bound}-bound on {answer.device} in {answer.dtype}", indent=0)
    sizes = ", ".join(f"{name} {size}" for name, size in work.sizes.items())
    heading(screen, work.name, sizes)
    facts(
        screen,
        [
            ("FLOPs", format_flops(work.flops), f"at {format_rate(answer.peak)}"),
            ("bytes", format_bytes(answer.bytes), f"at {format_rate(answer.bandwidth, 'B/s')}"),
            ("intensity", figure(answer.intensity), "FLOP/byte"),
            ("ridge", figure(answer.ridge), "FLOP/byte; below it the memory is the limit"),
            ("compute", _seconds(answer.compute_seconds), "at peak"),
            ("memory", _seconds(answer.memory_seconds), "at full bandwidth"),
            ("seconds", _seconds(answer.seconds), "at least: the larger of the two"),
        ],
    )
    screen.print()
    bullets(
        screen,
        (
            work.convention,
            "each input is read once and the output written once",
            "the peak is dense, that of the device's fastest units for the format",
        ),
    )


def figure(value: float) -> str:
    """A ratio to three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _seconds(value: float) -> str:
    """A duration; what is too short for two decimals of a nanosecond is not shown as nothing."""
    return "<0.01 ns" if 0 < value < 0.5e-11 else format_seconds(value)
