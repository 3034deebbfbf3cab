"""An estimate on a terminal: the verdict first, then why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.report.layout import bullets, console, heading
from tonnage.report.memory import print_peak, print_stages, print_verdict
from tonnage.report.step import print_communication, print_flops, print_run, print_step

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate


def print_estimate(answer: Estimate, screen: Console | None = None) -> None:
    """Print an estimate.

    Args:
        answer: the estimate.
        screen: where; None: stdout.
    """
    screen = screen or console()
    for part in (
        print_verdict,
        print_peak,
        print_stages,
        print_step,
        print_flops,
        print_communication,
        print_run,
    ):
        part(screen, answer)
    heading(screen, "Assumed")
    bullets(screen, answer.assumptions)
    heading(screen, "Not modelled")
    bullets(screen, answer.not_modelled)
