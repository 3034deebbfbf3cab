"""``tonnage estimate``: will it fit, how long will it take, and why."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.stdin import show_hyphen
from tonnage.cli.views import ViewFlags
from tonnage.errors import InputError
from tonnage.plan import Plan

if TYPE_CHECKING:
    from tonnage.estimation import Estimate, Explanation
    from tonnage.search import Change

_WHAT = Group("Model and plan", sort_key=1)
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_VIEWS = ViewFlags()


@with_plan_flags
def estimate(
    model: Annotated[
        str | None,
        Parameter(group=_WHAT, help="A catalog name, a config.json, a folder, - or a hub name."),
    ] = None,
    /,
    *,
    model_file: Annotated[
        str | None,
        Parameter(group=_WHAT, metavar="FILE", help="A config.json, in place of MODEL."),
    ] = None,
    cluster: ClusterFlags = _NO_CLUSTER,
    plan_file: Annotated[
        str | None,
        Parameter(
            group=_WHAT,
            metavar="FILE",
            help="Plan fields as JSON or TOML, or the output of --json. Flags go before it.",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        Parameter(
            group=_WHAT,
            metavar="ROW",
            help="Print the formula behind one row of memory, or behind flops, and nothing else.",
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
    from tonnage.arch import load
    from tonnage.estimation import estimate as weigh

    named = _model(model, model_file)
    where = cluster.read()
    plan = _plan(plan_file, plan_changes(flags))
    within = limits.read()
    architecture = load(show_hyphen(named))
    if explain is not None:
        from tonnage.estimation import explain as explain_row

        row = explain.strip().lower().replace("-", "_").replace(" ", "_")
        return _show_explanation(explain_row(architecture, plan, where, row), as_json=as_json)
    answer = weigh(architecture, plan, where, within)
    if views.asked:
        found = views.prepare(answer, (architecture, plan, where, within))
        if views.drawn:
            return views.show(answer, found, as_json=as_json)
    if answer.fits:
        return _show(answer, None, as_json=as_json)
    from tonnage.search import nearest

    return _show(answer, nearest(architecture, plan, where, within, before=answer), as_json=as_json)


def _model(model: str | None, file: str | None) -> str:
    """MODEL or the file that stands in for it."""
    if (model is None) == (file is None):
        raise InputError(
            field="MODEL",
            value="" if model is None else model,
            problem="is missing" if model is None else "is given beside --model-file",
            accepted="a catalog name, a config.json, a folder, - or a hub name",
            hint="" if model is None else "one of the two",
        )
    # A name without a folder could be a name of the catalog.
    if file is None:
        return str(model)
    return file if file == "-" else os.path.join(os.curdir, file)


def _plan(path: str | None, changes: dict[str, Any]) -> Plan:
    """The plan of the file, or a blank one, with what the flags say put over it."""
    if path is None:
        return Plan(**changes)
    from tonnage.cli.plan_file import read_plan

    return dataclasses.replace(read_plan(show_hyphen(path)), **changes)


def _show(answer: Estimate, changes: Sequence[Change] | None, *, as_json: bool) -> int:
    """Print an answer, and what would make it fit where it does not."""
    if as_json:
        found = answer.to_dict()
        if changes is not None:
            found["nearest"] = [change.to_dict() for change in changes]
        print_json(found)
    else:
        from tonnage.report.estimate import print_estimate

        print_estimate(answer, changes)
    return 0 if answer.fits else 3


def _show_explanation(explanation: Explanation, *, as_json: bool) -> int:
    if as_json:
        print_json(dataclasses.asdict(explanation))
    else:
        from tonnage.report.explain import print_explanation

        print_explanation(explanation)
    return 0
