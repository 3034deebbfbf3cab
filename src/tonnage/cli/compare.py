"""``tonnage compare``: plans, models or clusters side by side."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.flags import field_types, plan_changes, with_plan_flags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import SourceFlags, gather
from tonnage.cli.views import ViewFlags
from tonnage.errors import InputError
from tonnage.files import UnreadableError, parse_json, read_bounded

_WHAT = Group("Sides", sort_key=1)
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_NO_SOURCE = SourceFlags()
LARGEST_ANSWER = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class _Words:
    """What some words of a command line say of a run."""

    model: str | None
    source: SourceFlags
    cluster: ClusterFlags
    limits: LimitFlags
    plan: Mapping[str, Any]

    def over(self, other: _Words) -> _Words:
        """These words, and the other's where these say nothing."""
        return _Words(
            model=self.model or other.model,
            source=other.source if self.source == _NO_SOURCE else self.source,
            cluster=_over(self.cluster, other.cluster),
            limits=_over(self.limits, other.limits),
            plan={**other.plan, **self.plan},
        )


@with_plan_flags
def compare(
    *sides: Annotated[
        str,
        Parameter(
            group=_WHAT,
            allow_leading_hyphen=True,
            help="A MODEL, or flags in quotes ('--tp 4 --gpus 64xB200'), or both, or a JSON file.",
        ),
    ],
    model: Annotated[
        str | None,
        Parameter(group=_WHAT, help="The model of every side that names none."),
    ] = None,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """Set runs side by side; flags outside the quotes hold for all of them."""
    from tonnage.search.comparison import compare as set_beside

    common = _Words(
        model=model, source=source, cluster=cluster, limits=limits, plan=plan_changes(flags)
    )
    found = set_beside(sides, [_answer(side, common) for side in sides])
    if as_json:
        print_json(found.to_dict())
    else:
        from tonnage.report.comparison import print_comparison

        print_comparison(found)
    return 0


def _over(upper: Any, lower: Any) -> Any:
    """A dataclass of texts with another one's where it has None."""
    given = {
        field.name: value
        for field in dataclasses.fields(upper)
        if (value := getattr(upper, field.name)) is not None
    }
    return dataclasses.replace(lower, **given)


def _answer(side: str, common: _Words) -> dict[str, Any]:
    """The estimate of one side."""
    if side.endswith(".json") and Path(side).is_file() and (saved := _saved(side)) is not None:
        return saved
    from tonnage.estimation import estimate

    words = _parse(side).over(common)
    if words.model is None and not words.source.config and words.source.model_file is None:
        raise InputError(
            field="SIDE",
            value=side,
            problem="names no model",
            accepted="a MODEL at its start, --config FILE, or --model for all sides",
        )
    run = gather(words.model, words.source, words.cluster, words.limits, dict(words.plan))
    return estimate(run.architecture, run.plan, run.cluster, run.limits).to_dict()


def _parse(side: str) -> _Words:
    """The words of a side, as ``tonnage estimate`` takes them."""
    from tonnage.cli.app import make_app

    try:
        words = shlex.split(side)
    except ValueError as error:
        raise InputError(
            field="SIDE", value=side, problem=f"cannot be read: {error}", accepted="shell words"
        ) from None
    _, bound, _ = make_app().parse_args(
        ["estimate", *words], print_error=False, exit_on_error=False
    )
    given = dict(bound.arguments)
    views: ViewFlags = given.get("views") or ViewFlags()
    for name in ("explain", "export", "as_json", *views.given()):
        if given.get(name) or name in views.given():
            flag = name.removeprefix("as_").replace("_", "-")
            raise InputError(
                field="SIDE",
                value=side,
                problem=f"holds --{flag}, which is no part of a plan",
                accepted="MODEL or files, and the flags of a plan, a cluster and limits",
            )
    return _Words(
        model=given.get("model"),
        source=given.get("source") or _NO_SOURCE,
        cluster=given.get("cluster") or _NO_CLUSTER,
        limits=given.get("limits") or _NO_LIMITS,
        plan=plan_changes({name: given.get(name) for name in field_types()}),
    )


def _saved(path: str) -> dict[str, Any] | None:
    """An estimate that was saved as JSON; None for another JSON file, such as a config."""
    try:
        found = parse_json(read_bounded(path, LARGEST_ANSWER).decode("utf-8"))
    except (UnreadableError, ValueError, RecursionError):
        return None
    parts = ("model", "cluster", "plan", "memory", "step", "fits")
    whole = isinstance(found, dict) and all(name in found for name in parts)
    if not whole or "peak_bytes" not in found["memory"]:
        return None
    return dict(found)
