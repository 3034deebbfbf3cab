"""A device: its memory, its rates, and the links it usually comes with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tonnage.cluster.host import Host
from tonnage.cluster.link import Link
from tonnage.dtype import DType, dtype
from tonnage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Device:
    """An accelerator, as its maker publishes it.

    What is not published is None or absent; `published` and `peak_flops` ask for a figure
    and raise where there is none.

    Attributes:
        name: the name that Tonnage prints.
        vendor: who makes it.
        architecture: what its kernels are compiled for: a compute capability (``sm90``),
            a target of LLVM (``gfx942``), or else the maker's name of the generation.
        memory_bytes: nominal memory, as in its name: 80e9 for an "80GB" part.
        usable_bytes: what the driver reports as total (``torch.cuda`` calls it
            ``total_memory``). It can exceed the nominal figure: an "80GB" A100 has
            80 GiB, of which some is held back.
        bandwidth: bytes per second between the device and its memory.
        peak: dense FLOP/s by the ``peak`` key of a `DType`; integer formats count
            operations. A figure that is not published is absent.
        tdp_watts: the power limit it is sold with; None where none is published.
        multiprocessors: streaming multiprocessors, compute units or cores; None where
            their number is not published.
        scale_up: the link inside a scale-up domain.
        scale_up_domain: devices that this link joins. Usually those of a node; 72 in a
            GB200 NVL72 rack, whose nodes have 4.
        gpus_per_node: devices in one host.
        network: the link beyond the scale-up domain, one device's share of it.
        context_bytes: memory that a process holds before its first tensor: the context
            and the kernels that are always loaded.
        source: where the figures come from, unless ``sources`` says otherwise.
        sources: for single figures (by the name of the attribute), where they come from
            and how certain they are.
        host: the machine that it is in; None: that of its generation
            (`tonnage.cluster.catalog.hosts`).
        aliases: other names, most of them without the memory. Names that several
            devices share mean the first of them in the catalog.
        measured: constants of the time model that were measured on this device, by name
            (`tonnage.cluster.measured`); those of a number format have the ``peak`` key
            before it, ``bf16.product_share``.
    """

    name: str
    vendor: str
    memory_bytes: int
    usable_bytes: int
    bandwidth: float
    peak: Mapping[str, float] = field(hash=False)
    scale_up: Link
    scale_up_domain: int
    gpus_per_node: int
    network: Link
    context_bytes: int
    source: str
    sources: Mapping[str, str] = field(hash=False)
    architecture: str = ""
    tdp_watts: int | None = None
    multiprocessors: int | None = None
    host: Host | None = None
    aliases: tuple[str, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict, hash=False)

    def peak_flops(self, number_format: str | DType, *, field: str = "dtype") -> float:
        """Dense FLOP/s in a number format, with the accumulation that training needs.

        Args:
            number_format: a `DType`, or a name that `dtype` takes.
            field: the flag or key that chose the format, for the error.

        Raises:
            InputError: where the maker publishes no figure for that format.
        """
        wanted = (
            dtype(number_format, field=field) if isinstance(number_format, str) else number_format
        )
        rate = self.peak.get(wanted.peak)
        if rate is None:
            raise InputError(
                field=field,
                value=wanted.name,
                problem=f"has no published peak on {self.name}",
                accepted=", ".join(self.peak),
            )
        return rate

    def published(self, figure: Literal["tdp_watts", "multiprocessors"]) -> int:
        """A figure that some makers keep to themselves.

        Raises:
            InputError: where this device's does.
        """
        value: int | None = getattr(self, figure)
        if value is None:
            raise InputError(
                field=figure,
                value=self.name,
                problem="has no published figure",
                hint="a device file can give one",
            )
        return value

    def ridge(self, number_format: str | DType, *, field: str = "dtype") -> float:
        """FLOP per byte of memory traffic at which the peak and the bandwidth meet.

        Raises:
            InputError: as `peak_flops`.
        """
        return self.ridge_of(self.peak_flops(number_format, field=field))

    def ridge_of(self, rate: float) -> float:
        """FLOP per byte of memory traffic that a rate in FLOP/s takes to be the limit."""
        return rate / self.bandwidth

    def source_of(self, figure: str) -> str:
        """Where a figure comes from, by the name of its attribute."""
        return self.sources.get(figure, self.source)
