"""``tonnage scale``: one plan on clusters of several sizes."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT, Model, SourceFlags, gather
from tonnage.cli.shared import freed

_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_SOURCE = SourceFlags()


@with_plan_flags
def scale(
    model: Model = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
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
    from tonnage.search.scaling import scaling

    changes = plan_changes(flags)
    run = gather(model, source, cluster, limits, changes, several="doubled")
    plan, prices = freed(run, changes), limits.prices()
    points = scaling(run.architecture, plan, run.clusters, run.limits, weak=weak, prices=prices)
    if as_json:
        print_json(
            {"scaling": "weak" if weak else "strong", "points": [p.to_dict() for p in points]}
        )
    else:
        from tonnage.report.scaling import print_scaling

        print_scaling(points, weak=weak)
    return 0 if any(each.answer and each.answer.fits for each in points) else 3
