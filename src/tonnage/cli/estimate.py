"""``tonnage estimate``: will it fit, how long will it take, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.export import show_export
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT, Run, SourceFlags, gather
from tonnage.cli.views import ViewFlags
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.estimation import Estimate, Explanation
    from tonnage.search import Advice, Change

_NO_SOURCE = SourceFlags()
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_VIEWS = ViewFlags()


@with_plan_flags
def estimate(
    model: Annotated[
        str | None,
        Parameter(group=WHAT, help="A catalog name, a config.json, a folder, - or a hub name."),
    ] = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
    explain: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            metavar="ROW",
            help="Print the formula behind one row of memory, or behind flops, and nothing else.",
        ),
    ] = None,
    export: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            metavar="TOOL",
            help="Print the plan as a launch file of another tool, and nothing else.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    views: ViewFlags = _NO_VIEWS,
    **flags: Any,
) -> int:
    """Weigh a run: does it fit, where do the bytes and the seconds go, how long is it.

    Every blank of the plan is filled in, and the answer says with what. Exit code 3 means
    that it does not fit; the answer is printed all the same.
    """
    from tonnage.estimation import estimate as weigh

    _check_one_output(export, explain, views)
    changes = plan_changes(flags)
    run = gather(model, source, cluster, limits, changes)
    if export is not None:
        return show_export(run, export, changes, as_json=as_json)
    if explain is not None:
        from tonnage.estimation import explain as explain_row

        row = explain.strip().lower().replace("-", "_").replace(" ", "_")
        told = explain_row(run.architecture, run.plan, run.cluster, row)
        return _show_explanation(told, as_json=as_json)
    from tonnage.search import advice, nearest

    answer = weigh(run.architecture, run.plan, run.cluster, run.limits)
    if run.configured is not None:
        notes = run.configured.launch.notes
        answer = dataclasses.replace(answer, assumptions=(*notes, *answer.assumptions))
    drawn: Mapping[str, object] = {}
    if views.asked:
        line = views.prepare(answer, (run.architecture, run.plan, run.cluster, run.limits))
        if views.drawn and not as_json:
            return views.show(answer, line)
        drawn = views.data(line)
    if answer.fits:
        faster = advice(run.architecture, run.cluster, answer, run.limits)
        return _show(answer, None, faster, run, drawn, as_json=as_json)
    found = nearest(run.architecture, run.plan, run.cluster, run.limits, before=answer)
    return _show(answer, found, (), run, drawn, as_json=as_json)


def _check_one_output(export: str | None, explain: str | None, views: ViewFlags) -> None:
    """What prints one thing and nothing else leaves no room for another.

    Raises:
        InputError: two such flags are given.
    """
    alone = {"export": export, "explain": explain}
    given = [*(name for name, value in alone.items() if value is not None), *views.given()]
    if len(given) > 1 and given[0] in alone:
        raise InputError(
            field=given[0],
            value=alone[given[0]],
            problem=f"is given beside --{given[1]}, and what it prints is all that is printed",
            accepted="one of the two",
        )


def _show(
    answer: Estimate,
    changes: Sequence[Change] | None,
    faster: Sequence[Advice],
    run: Run,
    drawn: Mapping[str, object],
    *,
    as_json: bool,
) -> int:
    """Print an answer, what would make it fit where it does not, and else what shortens it.

    JSON has what pictures are ``drawn`` from beside it.
    """
    if as_json:
        found = {**answer.to_dict(), "advice": [each.to_dict() for each in faster], **drawn}
        if changes is not None:
            found["nearest"] = [change.to_dict() for change in changes]
        if run.configured is not None:
            found["config"] = run.configured.account()
        print_json(found)
    else:
        from tonnage.report.estimate import print_estimate

        if run.configured is not None:
            print(run.configured.line())
        print_estimate(answer, changes, faster)
    return 0 if answer.fits else 3


def _show_explanation(explanation: Explanation, *, as_json: bool) -> int:
    if as_json:
        print_json(dataclasses.asdict(explanation))
    else:
        from tonnage.report.explain import print_explanation

        print_explanation(explanation)
    return 0
