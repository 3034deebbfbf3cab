"""The back of the envelope: the answer, its formula and its caveats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_count, format_flops, format_seconds
from tonnage.report.layout import bullets, console, facts, heading, listing, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.napkin import Capacity, MaxParameters, TrainTime


def print_train_time(answer: TrainTime, screen: Console | None = None) -> None:
    """Print how long a run takes, and the ledger's figure beside it where there is one."""
    screen = screen or console()
    screen.print(Text(format_seconds(answer.seconds), "bold cyan"))
    _print_formula(screen, answer.formula, answer.worked)
    screen.print()
    facts(
        screen,
        (
            ("FLOPs", format_flops(answer.flops), ""),
            ("days", f"{answer.days:,.2f}", ""),
            ("GPU-hours", f"{answer.gpu_hours:,.0f}", ""),
        ),
    )
    if answer.corrected:
        heading(screen, "By the ledger", "attention's scores counted")
        rows = [("6·N·D", format_flops(answer.flops), format_seconds(answer.seconds))] + [
            (f"{each.convention} attention", format_flops(each.flops), format_seconds(each.seconds))
            for each in answer.corrected
        ]
        listing(screen, (("", "left"), ("FLOPs", "right"), ("time", "right")), rows)
    heading(screen, "Caveats")
    bullets(screen, answer.caveats)


def print_max_parameters(answer: MaxParameters, screen: Console | None = None) -> None:
    """Print how large a model can be, and the same under every other recipe."""
    screen = screen or console()
    chosen = answer.chosen
    how = f"at {chosen.bytes_per_parameter:g} bytes a parameter"
    recipe = f" ({chosen.recipe}: {chosen.summary})" if chosen.recipe else f" ({chosen.summary})"
    parameters = f"{format_count(answer.parameters)} parameters"
    line = Text.assemble((parameters, "bold cyan"), f" {how}", (recipe, "dim"))
    print_block(screen, line, indent=0)
    _print_formula(screen, answer.formula, answer.worked)
    heading(screen, "Recipes")
    listing(
        screen,
        (("recipe", "left"), ("bytes", "right"), ("parameters", "right")),
        [_recipe(each, chosen) for each in answer.recipes],
    )
    heading(screen, "Caveats")
    bullets(screen, answer.caveats)


def _recipe(each: Capacity, chosen: Capacity) -> list[Text]:
    style = "bold" if each.recipe == chosen.recipe else ""
    cells = (each.recipe, f"{each.bytes_per_parameter:g}", format_count(each.parameters))
    return [Text(cell, style) for cell in cells]


def _print_formula(screen: Console, formula: str, worked: str) -> None:
    for line in (formula, worked):
        print_block(screen, Text(line, "dim"))
