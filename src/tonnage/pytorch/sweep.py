"""What is measured of one device: products, attention, copies, and the host.

The shapes grow from small to large, and those that would take longer than a budget are left
out: a laptop and an accelerator run the same sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, LlamaConfig

from tonnage.errors import NotModelledError
from tonnage.pytorch.stopwatch import Clock
from tonnage.timing.calibration import (
    HEAD,
    AttentionTime,
    Measurements,
    ProductTime,
    TrafficTime,
)

FORMATS: Final[dict[str, torch.dtype]] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
"""Formats that PyTorch multiplies without a scale."""

WIDTHS: Final = (64, 256, 512, 1024, 2048, 4096, 8192, 16384)
TOKENS: Final = (16, 128, 512, 2048, 8192)
SEQUENCES: Final = (256, 512, 1024, 2048, 4096, 8192, 16384)
COPIES: Final = tuple(2**power for power in range(12, 31, 2))
HEADS: Final = 8
SLOWEST: Final = 0.25
"""Seconds of the longest call; what is expected to take longer is left out."""
FIRST: Final = 2
"""Calls that are made whatever they take: one alone may have met a busy machine."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Measures one device.

    Attributes:
        device: the device.
        clock: what times the calls.
        slowest: seconds of the longest call.
        memory: bytes that the tensors of one call may take.
        seen: called after each measurement, for a progress bar.
    """

    device: torch.device
    clock: Clock
    slowest: float = SLOWEST
    memory: int = 2**30
    seen: Callable[[], None] = lambda: None

    def measure(self, formats: Sequence[str]) -> Measurements:
        """Everything that one process can measure alone.

        Raises:
            NotModelledError: a format needs scales, and its products are not measured.
        """
        for name in formats:
            if name not in FORMATS:
                raise NotModelledError(
                    field="dtypes",
                    value=name,
                    problem="is a format whose products are not measured",
                    accepted=", ".join(FORMATS),
                )
        return Measurements(
            products={name: tuple(self.products(name)) for name in formats},
            attention={name: tuple(self.attention(name)) for name in formats},
            traffic=tuple(self.traffic()),
            host_passes=tuple(self.host_passes()),
        )

    def products(self, number_format: str) -> Iterator[ProductTime]:
        """Products of tokens with weights: wide and narrow, shallow and deep."""
        kind = FORMATS[number_format]
        rates: list[float] = []
        for rows, columns, depth in product_shapes():
            work = 2.0 * rows * columns * depth
            size = (rows * depth + depth * columns + rows * columns) * kind.itemsize
            if self._too_long(work, rates) or size > self.memory:
                continue
            a = torch.randn(rows, depth, device=self.device, dtype=kind)
            b = torch.randn(depth, columns, device=self.device, dtype=kind)
            seconds = self._timed(lambda a=a, b=b: torch.matmul(a, b))  # type: ignore[misc]
            rates.append(work / seconds)
            yield ProductTime(rows=rows, columns=columns, depth=depth, seconds=seconds)

    def attention(self, number_format: str) -> Iterator[AttentionTime]:
        """Causal attention with heads of 128, forward and backward."""
        kind = FORMATS[number_format]
        rates: list[float] = []
        for seq in SEQUENCES:
            work = 2.0 * HEADS * seq * seq * HEAD
            size = 8 * HEADS * seq * HEAD * kind.itemsize
            if self._too_long(3.5 * work, rates) or size > self.memory:
                continue
            forward, both = self._attention(kind, seq)
            rates.append(3.5 * work / both)
            yield _attention_time(seq, "forward", forward)
            if both > forward:  # a backward pass cannot be run without its forward
                yield _attention_time(seq, "backward", both - forward)

    def traffic(self) -> Iterator[TrafficTime]:
        """Copies of one tensor to another: each byte is read once and written once."""
        rates: list[float] = []
        for size in COPIES:
            if self._too_long(2 * size, rates) or 2 * size > self.memory:
                continue
            source = torch.zeros(size // 4, device=self.device)
            target = torch.empty_like(source)
            seconds = self._timed(lambda a=source, b=target: b.copy_(a))  # type: ignore[misc]
            rates.append(2 * size / seconds)
            yield TrafficTime(moved=2 * size, seconds=seconds)

    def host_passes(self) -> Iterator[float]:
        """One pass through a layer of transformers' Llama that is too small to take time.

        The difference between models of five layers and of one, forward and backward, of
        which a pass is half.
        """
        for tokens in (8, 16):
            short, long = (self._step(layers, tokens) for layers in (1, 5))
            if long > short:
                yield (long - short) / (2 * 4)

    def _too_long(self, work: float, rates: Sequence[float]) -> bool:
        """Whether a call is expected to pass the budget at the best rate of those before it."""
        return len(rates) >= FIRST and work / max(rates) > self.slowest

    def _timed(self, call: Callable[[], object]) -> float:
        seconds = self.clock.seconds(call)
        self.seen()
        return seconds

    def _attention(self, kind: torch.dtype, seq: int) -> tuple[float, float]:
        """Seconds of the forward kernel, and of forward and backward together."""
        q, k, v = (
            torch.randn(1, HEADS, seq, HEAD, device=self.device, dtype=kind, requires_grad=True)
            for _ in range(3)
        )
        gradient = torch.ones_like(q)

        def forward() -> torch.Tensor:
            out: torch.Tensor = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return out

        def both() -> None:
            forward().backward(gradient)

        def alone() -> None:
            with torch.no_grad():
                forward()

        return self._timed(alone), self._timed(both)

    def _step(self, layers: int, tokens: int) -> float:
        config = LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_attention_heads=4,
            num_key_value_heads=4,
            num_hidden_layers=layers,
            vocab_size=64,
            use_cache=False,
        )
        model = AutoModelForCausalLM.from_config(config).to(self.device)
        ids = torch.zeros(1, tokens, dtype=torch.long, device=self.device)

        def step() -> None:
            model(input_ids=ids).logits.sum().backward()

        return self._timed(step)


def product_shapes() -> tuple[tuple[int, int, int], ...]:
    """Rows, columns and depth of the products, from the least work to the most."""
    square = [(width, width, width) for width in WIDTHS]
    layers = [
        (tokens, columns, depth)
        for tokens in TOKENS
        for columns, depth in ((1024, 4096), (4096, 1024), (4096, 4096), (14336, 4096))
    ]
    deep = [(128, 128, 8192), (256, 256, 16384), (1000, 1000, 1000)]
    return tuple(sorted({*square, *layers, *deep}, key=lambda shape: (_work(shape), shape)))


def _work(shape: tuple[int, int, int]) -> int:
    rows, columns, depth = shape
    return rows * columns * depth


def _attention_time(seq: int, phase: str, seconds: float) -> AttentionTime:
    return AttentionTime(
        batch=1,
        heads=HEADS,
        seq=seq,
        phase="forward" if phase == "forward" else "backward",
        seconds=seconds,
    )
