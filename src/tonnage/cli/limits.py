"""The flags that say how long a run is and what it must stay within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Group, Parameter

from tonnage.cli.money import parse_prices, price_of
from tonnage.errors import InputError
from tonnage.estimation import Failures, Limits
from tonnage.quantity import (
    parse_bytes,
    parse_bytes_or_fraction,
    parse_count,
    parse_fraction,
    parse_rate,
    parse_seconds,
)
from tonnage.timing import STATED, Efficiency

T = TypeVar("T")

_GROUP = Group("Run and limits", sort_key=2)


def _flag(metavar: str, text: str) -> Parameter:
    return Parameter(metavar=metavar, help=text, group=_GROUP)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitFlags:
    """`tonnage.estimation.Limits` as text."""

    tokens: Annotated[str | None, _flag("N", "Tokens of the whole run, such as 15T.")] = None
    steps: Annotated[str | None, _flag("N", "Steps of the whole run.")] = None
    memory_limit: Annotated[
        str | None, _flag("BYTES", "What the run may use of a device, such as 70GiB.")
    ] = None
    margin: Annotated[
        str | None, _flag("BYTES|%", "What to keep free of a device, such as 2GiB or 5%.")
    ] = None
    efficiency: Annotated[
        str | None, _flag("X", "Share of peak FLOP/s that matrix products reach, such as 0.5.")
    ] = None
    price: Annotated[
        str | None,
        _flag(
            "X",
            "Money for an hour of one GPU, in any currency: 2.5, or by device: H100=2.5,B200=6.",
        ),
    ] = None
    mtbf: Annotated[
        str | None,
        _flag(
            "TIME",
            "Mean time between failures of one GPU that stop the job, such as 50000h: "
            "checkpoints, lost work and restarts count. Needs --checkpoint-bandwidth.",
        ),
    ] = None
    checkpoint_bandwidth: Annotated[
        str | None, _flag("RATE", "What the whole job writes to storage, such as 100GB/s.")
    ] = None
    restart_time: Annotated[
        str | None, _flag("TIME", "From a failure until work goes on; 10min if left out.")
    ] = None

    def read(
        self, device: str | None, *, tokens: int | None = None, steps: int | None = None
    ) -> Limits:
        """The limits that the texts stand for.

        Args:
            device: whose price counts; None: no price, which is then asked of `prices`.
            tokens: length of the run where no flag says it.
            steps: the same in steps, where it is not known in tokens.

        Raises:
            InputError: one of them stands for none.
        """
        share = _read(self.efficiency, parse_fraction, "efficiency")
        if self.tokens is not None or self.steps is not None:
            tokens = _read(self.tokens, parse_count, "tokens")
            steps = _read(self.steps, parse_count, "steps")
        return Limits(
            tokens=tokens,
            steps=steps,
            memory_limit=_read(self.memory_limit, parse_bytes, "memory_limit"),
            margin=_read(self.margin, parse_bytes_or_fraction, "margin"),
            efficiency=STATED if share is None else Efficiency(compute=share),
            price=None if device is None else price_of(self.prices(), device),
            failures=self._failures(),
        )

    def prices(self) -> dict[str, float]:
        """Money for a GPU-hour by device, as `tonnage.cli.money.parse_prices` has it.

        Raises:
            InputError: the text stands for none.
        """
        return parse_prices(self.price)

    def _failures(self) -> Failures | None:
        rate = _read(self.checkpoint_bandwidth, parse_rate, "checkpoint_bandwidth")
        restart = _read(self.restart_time, parse_seconds, "restart_time")
        mtbf = _read(self.mtbf, parse_seconds, "mtbf")
        if mtbf is None:
            for field in ("checkpoint_bandwidth", "restart_time"):
                if getattr(self, field) is not None:
                    raise InputError(
                        field=field,
                        value=getattr(self, field),
                        problem="says nothing without failures",
                        accepted="with --mtbf",
                    )
            return None
        if rate is None:
            raise InputError(
                field="checkpoint_bandwidth",
                value="",
                problem="is missing, and failures ask for checkpoints",
                accepted="what the whole job writes to storage, such as 100GB/s",
            )
        return Failures(mtbf=mtbf, checkpoint_bandwidth=rate, restart=restart)


def _read(text: str | None, parse: Callable[..., T], field: str) -> T | None:
    return None if text is None else parse(text, field=field)
