"""A row of an estimate explained: symbols, formulas, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Column
from rich.text import Text

from tonnage.report.layout import bullets, console, grid, heading, print_grid

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
    _print_formula(screen, total)
    if explanation.lines:
        heading(screen, "Terms")
        for line in explanation.lines:
            screen.print(Text.assemble("  ", (line.name, "bold"), "  ", (line.value, "cyan")))
            _print_formula(screen, line, indent=4)
    heading(screen, "Where")
    table = grid(Column(no_wrap=True, style="bold"), Column(justify="right"), Column(ratio=1))
    for symbol in explanation.symbols:
        table.add_row(symbol.name, str(symbol.value), symbol.meaning)
    print_grid(screen, table)
    heading(screen, "Notes")
    bullets(screen, explanation.notes)


def _print_formula(screen: Console, line: Line, indent: int = 2) -> None:
    """The formula, and under it the same with numbers."""
    from rich.padding import Padding

    screen.print(Padding(line.formula, (0, 0, 0, indent)))
    if line.worked != line.formula:
        screen.print(Padding(Text(f"= {line.worked}", "dim"), (0, 0, 0, indent)))
