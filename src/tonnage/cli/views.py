"""The flags that show a run over a step: in the terminal, or as a page."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from tonnage.arch import Architecture
    from tonnage.cluster import Cluster
    from tonnage.estimation import Estimate, Limits, RunTimeline
    from tonnage.plan import Plan

_GROUP = Group("Over a step", sort_key=3)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ViewFlags:
    """What to show beside the figures of an estimate."""

    timeline: Annotated[
        bool,
        Parameter(
            negative="",
            group=_GROUP,
            show_default=False,
            help="Draw memory over a step, in place of the tables; with --json, add it.",
        ),
    ] = False
    gantt: Annotated[
        bool,
        Parameter(
            negative="",
            group=_GROUP,
            show_default=False,
            help="Draw the pipeline's schedule, in place of the tables; with --json, add it.",
        ),
    ] = False
    html: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            group=_GROUP,
            help="Write both, and the figures, as one page that needs no network.",
        ),
    ] = None

    def given(self) -> list[str]:
        """The flags that were given."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name)]

    @property
    def asked(self) -> bool:
        """Whether any of them was given."""
        return self.drawn or self.html is not None

    @property
    def drawn(self) -> bool:
        """Whether a picture takes the place of the tables."""
        return self.timeline or self.gantt

    def prepare(
        self, answer: Estimate, run: tuple[Architecture, Plan, Cluster, Limits]
    ) -> RunTimeline:
        """The run over a step, written as a page where one was asked for.

        Raises:
            InputError: the page cannot be written.
            MissingPartError: the page needs plotly, and it is not installed.
        """
        from tonnage.cli.written import check_page_name, write_page
        from tonnage.estimation import timeline

        if self.html is not None:
            check_page_name(self.html)
        found = timeline(*run)
        if self.html is not None:
            from tonnage.report.run_page import run_page

            write_page(run_page(answer, found), self.html)
        return found

    def data(self, found: RunTimeline) -> dict[str, object]:
        """What the pictures that were asked for are drawn from, as JSON takes it."""
        data = dataclasses.asdict(found)
        pipeline = data.pop("pipeline")
        timeline = {"timeline": data} if self.timeline else {}
        return {**timeline, **({"pipeline": pipeline} if self.gantt else {})}

    def show(self, answer: Estimate, found: RunTimeline) -> int:
        """Print the pictures; the exit code."""
        from tonnage.report.gantt import print_gantt
        from tonnage.report.layout import console
        from tonnage.report.memory import print_verdict
        from tonnage.report.timeline import print_timeline

        screen = console()
        print_verdict(screen, answer)
        if self.timeline:
            print_timeline(screen, answer, found)
        if self.gantt:
            print_gantt(screen, found.pipeline)
        return 0 if answer.fits else 3
