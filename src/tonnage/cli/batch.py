"""``tonnage batch``: step time and throughput against the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT, ModelName, PlanFile, read_plan
from tonnage.cli.stdin import show_hyphen
from tonnage.cli.written import check_page_name

_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()


@with_plan_flags
def batch(
    model: ModelName,
    /,
    *,
    cluster: ClusterFlags = _NO_CLUSTER,
    plan_file: PlanFile = None,
    html: Annotated[
        Path | None,
        Parameter(
            group=WHAT,
            metavar="FILE",
            show_default=False,
            help="Write both curves as a page of its own; needs the plot extra.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """Step time and throughput against the batch: the knee, and the limit of memory."""
    from tonnage.arch import load
    from tonnage.search.batch_curve import batch_curve

    if html is not None:
        check_page_name(html)
    plan = read_plan(plan_file, plan_changes(flags))
    curve = batch_curve(load(show_hyphen(model)), plan, cluster.read(), limits.read())
    if html is not None:
        from tonnage.report.batch_html import write_html

        write_html(curve, html)
    if as_json:
        print_json(curve.to_dict())
    else:
        from tonnage.report.batch import print_batch

        print_batch(curve)
    return 0 if curve.largest_mbs is not None else 3
