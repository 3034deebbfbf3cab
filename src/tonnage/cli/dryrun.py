"""``tonnage dryrun``: the real PyTorch step on fake tensors, beside the estimate."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.plan import Plan

_WHAT = Group("Model and plan", sort_key=1)
_FUNCTION = re.compile(r".+\.py:[A-Za-z_]\w*")


@with_plan_flags
def dryrun(
    model: Annotated[
        str,
        Parameter(
            group=_WHAT,
            help="As for estimate; or path/to/file.py:function, whose code is run.",
        ),
    ],
    /,
    *,
    gpus: Annotated[
        str,
        Parameter(group=_WHAT, metavar="NxDEVICE", help="How many of what; one rank is run."),
    ] = "1xH100",
    as_json: JsonFlag = False,
    **flags: Any,
) -> int:
    """Run one training step of one rank on fake tensors, and record every allocation."""
    if _FUNCTION.fullmatch(model):
        return _run_file(model, as_json=as_json)
    from tonnage.arch import find_config
    from tonnage.cluster import parse_cluster
    from tonnage.pytorch import compare, dry_run

    changes: dict[str, Any] = dict(plan_changes(flags))
    plan = dataclasses.replace(Plan(runtime="transformers"), **changes)
    found = find_config(model)
    run = dry_run(found.config, plan, parse_cluster(gpus, field="gpus"), name=found.name)
    rows = compare(run)
    if as_json:
        _print_json(
            **run.trace.summary(),
            comparison=[dataclasses.asdict(row) for row in rows],
            plan=dataclasses.asdict(run.resolved.plan),
            assumptions=[*run.resolved.assumptions, *run.assumptions],
        )
    else:
        from tonnage.report.dryrun import print_dry_run

        print_dry_run(run, rows)
    return 0


def _run_file(target: str, *, as_json: bool) -> int:
    from tonnage.pytorch import dry_run_file

    trace = dry_run_file(target)
    if as_json:
        _print_json(**trace.summary(), assumptions=list(trace.notes))
    else:
        from tonnage.report.dryrun import print_trace

        print_trace(trace, title=target)
    return 0


def _print_json(**parts: Any) -> None:
    from tonnage.estimation import SCHEMA_VERSION

    print_json({"schema_version": SCHEMA_VERSION, **parts})
