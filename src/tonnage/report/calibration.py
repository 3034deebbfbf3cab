"""Fitted constants on a terminal: value, how well it is determined, and what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from tonnage.cluster.measured import known_constant
from tonnage.report.hardware import constant_text
from tonnage.report.layout import bullets, console, grid, heading, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.cluster import Device
    from tonnage.timing.fit import Fit


def print_calibration(
    device: Device,
    fits: Mapping[str, Fit],
    refused: Mapping[str, str],
    *,
    written: str | None,
    screen: Console | None = None,
) -> None:
    """Print every fit, the constants that nothing determines among them.

    Args:
        device: the device.
        fits: by what was measured.
        refused: rows that could not be used, and why.
        written: the device file, where one was written.
        screen: where; None: stdout.
    """
    screen = screen or console()
    screen.print(Text(device.name, "bold"))
    for name, found in fits.items():
        heading(
            screen,
            name.capitalize(),
            f"{found.rows} measurements; mean error {found.before:.1%} before, "
            f"{found.after:.1%} after",
        )
        print_block(screen, _table(found))
    if any(not each.determined for found in fits.values() for each in found.constants):
        screen.print()
        note = "open: these measurements do not determine it, and it keeps the usual value"
        print_block(screen, Text(note, "dim"))
    if refused:
        heading(screen, "Not used", "rows, by reason")
        reasons = Counter(refused.values())
        bullets(screen, [f"{count}: {reason}" for reason, count in reasons.most_common()])
    if written is not None:
        heading(screen, "Written")
        bullets(screen, [f"{written}: what is determined; --device-file takes it"])


def _table(found: Fit) -> Table:
    table = grid(
        Column("constant", no_wrap=True),
        Column("value", no_wrap=True, justify="right"),
        Column("±", no_wrap=True, justify="right"),
        Column("", ratio=1),
    )
    table.show_header = True
    table.header_style = "dim"
    for each in found.constants:
        constant = known_constant(each.name)
        error = f"{each.error:.0%}" if each.determined else "open"
        cells = (each.name, constant_text(each.value, constant), error, constant.meaning)
        table.add_row(*(Text(cell, "" if each.determined else "dim") for cell in cells))
    return table
