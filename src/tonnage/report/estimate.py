"""An estimate on a terminal: the verdict first, then why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tonnage.report.changes import print_advice, print_nearest
from tonnage.report.layout import bullets, console, heading
from tonnage.report.memory import print_peak, print_stages, print_verdict
from tonnage.report.step import print_communication, print_flops, print_run, print_step

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate
    from tonnage.search import Advice, Change


def print_estimate(
    answer: Estimate,
    changes: Sequence[Change] | None = None,
    faster: Sequence[Advice] = (),
    screen: Console | None = None,
) -> None:
    """Print an estimate.

    Args:
        answer: the estimate.
        changes: what would make it fit; None: it fits, or nobody has looked.
        faster: what would shorten its step.
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
        if part is print_verdict and changes is not None:
            print_nearest(screen, changes)
        if part is print_step:
            print_advice(screen, faster)
    heading(screen, "Assumed")
    bullets(screen, answer.assumptions)
    heading(screen, "Not modelled")
    bullets(screen, answer.not_modelled)
