"""``tonnage batch``: step time and throughput against the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT, Model, SourceFlags, gather
from tonnage.cli.written import check_page_name

_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_SOURCE = SourceFlags()


@with_plan_flags
def batch(
    model: Model = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
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
    from tonnage.search.batch_curve import batch_curve

    if html is not None:
        check_page_name(html)
    run = gather(model, source, cluster, limits, plan_changes(flags))
    curve = batch_curve(run.architecture, run.plan, run.cluster, run.limits)
    if html is not None:
        from tonnage.report.batch_html import write_html

        write_html(curve, html)
    if as_json:
        print_json(curve.to_dict())
    else:
        from tonnage.report.batch import print_batch

        print_batch(curve)
    return 0 if curve.largest_mbs is not None else 3
