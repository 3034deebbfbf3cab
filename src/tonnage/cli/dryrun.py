"""``tonnage dryrun``: the real PyTorch step on fake tensors, beside the estimate."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT
from tonnage.errors import InputError
from tonnage.plan import Plan

if TYPE_CHECKING:
    from tonnage.pytorch import Trace

_FILE = Group("Your own step", sort_key=2)
_FUNCTION = re.compile(r".+\.py:[A-Za-z_]\w*")


@with_plan_flags
def dryrun(
    model: Annotated[
        str,
        Parameter(
            group=WHAT,
            help="As for estimate; or path/to/file.py:function, whose code is run.",
        ),
    ],
    /,
    *,
    gpus: Annotated[
        str,
        Parameter(group=WHAT, metavar="NxDEVICE", help="How many of what; rank 0 is run."),
    ] = "1xH100",
    model_code: Annotated[
        Literal["reference", "transformers"] | None,
        Parameter(
            group=WHAT,
            help="Whose class: transformers' own, or the reference transformer. Default: "
            "transformers under that runtime, else the reference.",
        ),
    ] = None,
    memory_format: Annotated[
        Literal["channels_last", "contiguous", "preserve"] | None,
        Parameter(
            group=_FILE,
            help="Put the model and its images into a layout, and report what is copied to "
            "change layouts; preserve: report only.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        Parameter(group=_FILE, metavar="SECONDS", help="How long the code may take."),
    ] = 600.0,
    as_json: JsonFlag = False,
    **flags: Any,
) -> int:
    """Run one training step of rank 0 on fake tensors, and record every allocation."""
    if not 0 < time_limit < float("inf"):
        raise InputError(
            field="time_limit", value=time_limit, problem="is no length of time", accepted="over 0"
        )
    if _FUNCTION.fullmatch(model):
        return _run_file(model, gpus, memory_format, time_limit, as_json=as_json)
    if memory_format is not None:
        raise InputError(
            field="memory_format",
            value=memory_format,
            problem="is for a step of your own, and a language model has no images",
            accepted="path/to/file.py:function as MODEL",
        )
    from tonnage.arch import find_config
    from tonnage.cluster import parse_cluster

    changes: dict[str, Any] = dict(plan_changes(flags))
    plan = dataclasses.replace(Plan(runtime="transformers"), **changes)
    found = find_config(model)
    cluster = parse_cluster(gpus, field="gpus")
    # PyTorch is slow to import: what can be refused without it has been by here.
    from tonnage.pytorch import compare, dry_run

    run = dry_run(found.config, plan, cluster, name=found.name, code=model_code)
    rows = compare(run)
    if as_json:
        _print_trace_json(
            run.trace,
            comparison=[dataclasses.asdict(row) for row in rows],
            model_code=run.code,
            plan=dataclasses.asdict(run.resolved.plan),
            assumptions=[*run.resolved.assumptions, *run.assumptions],
        )
    else:
        from tonnage.report.dryrun import print_dry_run

        print_dry_run(run, rows)
    return 0


def _run_file(
    target: str,
    gpus: str,
    layout: Literal["channels_last", "contiguous", "preserve"] | None,
    seconds: float,
    *,
    as_json: bool,
) -> int:
    from tonnage.cluster import parse_cluster
    from tonnage.pytorch import check_layout, dry_run_file

    if layout is not None:
        check_layout(parse_cluster(gpus, field="gpus").device, layout)
    run = dry_run_file(target, memory_format=layout, seconds=seconds)
    if as_json:
        copies = None if run.copies is None else [dataclasses.asdict(c) for c in run.copies]
        _print_trace_json(run.trace, layout_copies=copies, assumptions=list(run.trace.notes))
    else:
        from tonnage.report.dryrun import print_layout_copies, print_trace

        print_trace(run.trace, title=target)
        if run.copies is not None:
            print_layout_copies(run.copies)
    return 0


def _print_trace_json(trace: Trace, **parts: Any) -> None:
    from tonnage.estimation import SCHEMA_VERSION
    from tonnage.pytorch import alive_at_peak, replay

    print_json(
        {
            "schema_version": SCHEMA_VERSION,
            **trace.summary(),
            "allocator": dataclasses.asdict(replay(trace)),
            "alive_at_peak": [dataclasses.asdict(each) for each in alive_at_peak(trace)],
            **parts,
        }
    )
