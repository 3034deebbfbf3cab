"""A row of an estimate explained: symbols, formulas, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Column
from rich.text import Text

from tonnage.report.layout import bullets, console, grid, heading, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation.explain import Explanation, Line


def print_explanation(explanation: Explanation, screen: Console | None = None) -> None:
    """Print an explanation: the total, its terms, then what the letters mean.

    Args:
        explanation: the row explained.
        screen: where; None: stdout.
    """
    screen = screen or console()
    total = explanation.total
    screen.print(Text.assemble((explanation.row, "bold"), " = ", (total.value, "bold cyan")))
    screen.print(Text(explanation.summary, "dim"))
    screen.print()
    print_block(screen, _formula(total))
    if explanation.lines:
        heading(screen, "Terms")
        table = grid(
            Column(ratio=2), Column(ratio=3), Column(justify="right", style="cyan", no_wrap=True)
        )
        for line in explanation.lines:
            table.add_row(line.name, _formula(line), line.value)
        print_block(screen, table)
    heading(screen, "Where")
    table = grid(Column(no_wrap=True, style="bold"), Column(justify="right"), Column(ratio=1))
    for symbol in explanation.symbols:
        table.add_row(symbol.name, str(symbol.value), symbol.meaning)
    print_block(screen, table)
    heading(screen, "Notes")
    bullets(screen, explanation.notes)


def _formula(line: Line) -> Text:
    """The formula, and under it the same with numbers."""
    if line.worked == line.formula:
        return Text(line.formula)
    return Text.assemble(line.formula, (f"\n= {line.worked}", "dim"))
