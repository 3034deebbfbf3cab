"""Changes to a plan on a terminal: the flags, and what they do to bytes and seconds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Column
from rich.text import Text

from tonnage.plan.words import flag_words
from tonnage.quantity import format_bytes, format_percent
from tonnage.report.layout import bullets, grid, heading, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.search import Advice, Change


def change_words(change: Change) -> str:
    """A change as the flags that make it."""
    return shlex.join(flag_words(change.fields))


def signed_bytes(size: float) -> str:
    """A difference of bytes with its sign."""
    return f"{'+' if size >= 0 else '-'}{format_bytes(abs(size))}"


def print_changes(
    screen: Console, changes: Sequence[Change], then: Sequence[int | None] = ()
) -> None:
    """A table of changes, in the order given.

    Args:
        screen: where.
        changes: what is changed.
        then: bytes that each saves at another moment than the peak's; empty: not shown.
    """
    shown = any(size is not None for size in then)
    table = grid(
        Column("memory", justify="right", no_wrap=True),
        *([Column("then", justify="right", no_wrap=True)] if shown else ()),
        Column("step", justify="right", no_wrap=True),
        Column("", no_wrap=True),
        Column("change", ratio=1),
    )
    table.show_header, table.header_style = True, "dim"
    for index, change in enumerate(changes):
        fits = ("fits", "green") if change.answer.fits else ("too large", "red")
        remark = f"  ({change.alters})" if change.alters else ""
        table.add_row(
            signed_bytes(change.bytes),
            *([signed_bytes(-(then[index] or 0))] if shown else ()),
            f"{change.share:+.1%}",
            Text(*fits),
            Text.assemble(change_words(change), (remark, "dim")),
        )
    print_block(screen, table)


def print_nearest(screen: Console, changes: Sequence[Change]) -> None:
    """What would make a plan fit that does not."""
    heading(screen, "What would make it fit", "the shortest step first; the global batch stays")
    if changes:
        print_changes(screen, changes)
    else:
        bullets(screen, ["no change of this plan is enough: it needs more devices, or larger ones"])


def print_advice(screen: Console, advice: Sequence[Advice]) -> None:
    """What would shorten a step: the part that it is about, why, and what each change does."""
    if not advice:
        return
    heading(screen, "What would shorten it", "each estimated; the shortest step first")
    reasons = dict.fromkeys(
        f"{each.part} is {format_percent(each.share)} of the step: {each.why}" for each in advice
    )
    bullets(screen, reasons)
    print_changes(screen, [each.change for each in advice])
