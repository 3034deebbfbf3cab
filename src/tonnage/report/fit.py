"""What fits at most, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import format_count
from tonnage.report.layout import bullets, console, facts, heading, print_block
from tonnage.report.memory import print_verdict

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.search.fit import Fit

_NAMES = {
    "mbs": "sequences in a micro-batch",
    "seq": "tokens in a sequence",
    "layers": "layers",
    "params": "parameters",
    "lora-rank": "as the rank of adapters",
    "gpus": "devices",
}


def print_fit(found: Fit, screen: Console | None = None) -> None:
    """Print the value, the estimate at it, and what stops the next.

    Args:
        found: the answer.
        screen: where; None: stdout.
    """
    screen = screen or console()
    print_block(screen, _headline(found), indent=0)
    if found.answer is not None:
        screen.print()
        print_verdict(screen, found.answer)
    heading(screen, "What stops the next one")
    if found.next_value is None:
        bullets(screen, [found.stopped_by])
    else:
        facts(screen, [(_shown(found, found.next_value), "", found.stopped_by)])
    heading(screen, "How it was found", f"{found.tried} estimate{'s' * (found.tried != 1)}")
    bullets(screen, found.notes)


def _headline(found: Fit) -> Text:
    what = _NAMES[found.quantity]
    if found.value is None:
        return Text.assemble(("nothing fits", "bold red"), f": no number of {what} that was tried")
    word = "the fewest that hold it" if found.quantity == "gpus" else "the most that fit"
    return Text.assemble((_shown(found, found.value), "bold green"), f" {what}: {word}")


def _shown(found: Fit, value: int) -> str:
    return format_count(value) if found.quantity == "params" else f"{value:,}"
