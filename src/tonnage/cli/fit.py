"""``tonnage fit``: the largest value that fits, and what stops the next one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import SourceFlags, gather
from tonnage.errors import InputError

_WHAT = Group("Question, model and plan", sort_key=1)
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_SOURCE = SourceFlags()
_GROWING = ("mbs", "seq", "layers", "params", "lora-rank")


@with_plan_flags
def fit(
    model: Annotated[
        str | None,
        Parameter(group=_WHAT, help="A catalog name, a config.json, a folder, - or a hub name."),
    ] = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    most: Annotated[
        str | None,
        Parameter(
            name="--max",
            group=_WHAT,
            metavar="QUANTITY",
            help="The largest of what: mbs, seq, layers, params or lora-rank.",
        ),
    ] = None,
    least: Annotated[
        str | None,
        Parameter(
            name="--min", group=_WHAT, metavar="gpus", help="The fewest devices, up to --gpus."
        ),
    ] = None,
    cluster: ClusterFlags = _NO_CLUSTER,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """Find the largest value of one quantity at which a plan fits, all else as it is.

    Exit code 3 means that not even the smallest fits.
    """
    from tonnage.search.fit import fewest_gpus, largest_fitting

    quantity = _quantity(most, least)
    changes: dict[str, Any] = plan_changes(flags)
    varied = quantity.replace("-", "_")
    if changes.get(varied) is not None:
        raise InputError(
            field=varied,
            value=changes[varied],
            problem="is given, and it is what is to be found",
            accepted="without it",
        )
    run = gather(model, source, cluster, limits, changes)
    if quantity == "gpus":
        found = fewest_gpus(run.architecture, run.plan, run.cluster, run.limits)
    else:
        found = largest_fitting(quantity, run.architecture, run.plan, run.cluster, run.limits)
    if as_json:
        print_json(found.to_dict())
    else:
        from tonnage.report.fit import print_fit

        print_fit(found)
    return 0 if found.value is not None else 3


def _quantity(
    most: str | None, least: str | None
) -> Literal["mbs", "seq", "layers", "params", "lora-rank", "gpus"]:
    if (most is None) == (least is None):
        raise InputError(
            field="max",
            value="" if most is None else most,
            problem="is missing" if most is None else "is given beside --min",
            accepted=f"--max with one of {', '.join(_GROWING)}, or --min gpus",
        )
    if least is not None:
        if least.strip().lower() == "gpus":
            return "gpus"
        raise InputError(
            field="min", value=least, problem="is nothing to look for the least of", accepted="gpus"
        )
    word = str(most).strip().lower().replace("_", "-")
    for known in _GROWING:
        if word == known:
            return known  # type: ignore[return-value]
    raise InputError(
        field="max",
        value=most,
        problem="is nothing to look for the most of",
        accepted=", ".join(_GROWING),
    )
