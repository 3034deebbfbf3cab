"""The flags that say how long a run is and what it must stay within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Group, Parameter

from tonnage.estimation import Limits
from tonnage.quantity import parse_bytes, parse_bytes_or_fraction, parse_count, parse_fraction
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

    def read(self) -> Limits:
        """The limits that the texts stand for.

        Raises:
            InputError: one of them stands for none.
        """
        share = _read(self.efficiency, parse_fraction, "efficiency")
        return Limits(
            tokens=_read(self.tokens, parse_count, "tokens"),
            steps=_read(self.steps, parse_count, "steps"),
            memory_limit=_read(self.memory_limit, parse_bytes, "memory_limit"),
            margin=_read(self.margin, parse_bytes_or_fraction, "margin"),
            efficiency=STATED if share is None else Efficiency(compute=share),
        )


def _read(text: str | None, parse: Callable[..., T], field: str) -> T | None:
    return None if text is None else parse(text, field=field)
