"""``tonnage scale``: one plan on clusters of several sizes."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT, ModelName, PlanFile, read_plan
from tonnage.cli.stdin import show_hyphen

_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()


@with_plan_flags
def scale(
    model: ModelName,
    /,
    *,
    cluster: ClusterFlags = _NO_CLUSTER,
    plan_file: PlanFile = None,
    weak: Annotated[
        bool,
        Parameter(
            group=WHAT,
            negative="",
            show_default=False,
            help="The global batch grows with the GPUs, from gbs on the first cluster.",
        ),
    ] = False,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """One plan on clusters of several sizes: step time, throughput, memory and efficiency."""
    from tonnage.arch import load
    from tonnage.search.scaling import scaling

    clusters = cluster.read_all()
    plan = read_plan(plan_file, plan_changes(flags))
    points = scaling(load(show_hyphen(model)), plan, clusters, limits.read(), weak=weak)
    if as_json:
        print_json(
            {"scaling": "weak" if weak else "strong", "points": [p.to_dict() for p in points]}
        )
    else:
        from tonnage.report.scaling import print_scaling

        print_scaling(points, weak=weak)
    return 0 if any(each.answer and each.answer.fits for each in points) else 3
