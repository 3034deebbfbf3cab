"""``tonnage oom``: what an out-of-memory message says, and what to change."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import SourceFlags, gather
from tonnage.cli.stdin import show_hyphen
from tonnage.errors import InputError

_WHAT = Group("Log, model and plan", sort_key=1)
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_SOURCE = SourceFlags()


@with_plan_flags
def oom(
    log: Annotated[
        str, Parameter(group=_WHAT, help="A log or a message in a file, or - for standard input.")
    ],
    model: Annotated[
        str | None,
        Parameter(group=_WHAT, help="What was trained, as for estimate; left out: the log alone."),
    ] = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """Say what ran out of memory, when, why, and what to change.

    With a model, a cluster and a plan, or with the launch file (--config), the tensor that was
    asked for is named, and each change is weighed.
    """
    from tonnage.oom.diagnosis import diagnose, diagnose_run
    from tonnage.oom.log import read_log

    changes: dict[str, Any] = plan_changes(flags)
    alone = model is None and source == _NO_SOURCE
    if alone and (changes or cluster != _NO_CLUSTER):
        raise InputError(
            field="MODEL",
            value="",
            problem="is missing: a plan or a cluster says nothing without it",
            accepted="a catalog name, a config.json, a folder or a hub name, after the log",
        )
    failure = read_log(show_hyphen(log))
    if alone:
        found = diagnose(failure)
    else:
        run = gather(model, source, cluster, limits, changes)
        found = diagnose_run(failure, run.architecture, run.plan, run.cluster, run.limits)
    if as_json:
        print_json(found.to_dict())
    else:
        from tonnage.report.oom import print_diagnosis

        print_diagnosis(found)
    return 0
