"""``tonnage plan``: the best plan, why it is the best, and what it is chosen from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.export import for_export, show_found
from tonnage.cli.flags import plan_changes, with_plan_flags
from tonnage.cli.knobs import choices_of, wanted_of
from tonnage.cli.limits import LimitFlags
from tonnage.cli.money import parse_money
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import Model, Several, SourceFlags, gather
from tonnage.cli.shared import Shared
from tonnage.cli.values import whole
from tonnage.cli.written import check_page_name
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.estimation import Estimate
    from tonnage.search import Question, Reason, SearchAnswer

_WANTED = Group("What is wanted", sort_key=2)
_OUT = Group("Output", sort_key=90)
_NO_SOURCE = SourceFlags()
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_OBJECTIVES = ("time", "cost", "gpus", "headroom")


@with_plan_flags
def plan(
    model: Model = None,
    /,
    *,
    source: SourceFlags = _NO_SOURCE,
    cluster: ClusterFlags = _NO_CLUSTER,
    objective: Annotated[
        str, Parameter(group=_WANTED, help=f"What is best: {', '.join(_OBJECTIVES)}.")
    ] = "time",
    deadline: Annotated[
        str | None, Parameter(group=_WANTED, metavar="TIME", help="What the run may take: 30d.")
    ] = None,
    budget: Annotated[
        str | None, Parameter(group=_WANTED, metavar="X", help="What the run may cost: 2M.")
    ] = None,
    max_nodes: Annotated[
        str | None, Parameter(group=_WANTED, metavar="N", help="Hosts that a cluster may have.")
    ] = None,
    offload: Annotated[
        bool,
        Parameter(group=_WANTED, help="Whether plans may use host memory as the runtime can."),
    ] = True,
    top: Annotated[
        str, Parameter(group=_WANTED, metavar="N", help="How many plans to answer with.")
    ] = "5",
    why_not: Annotated[
        str | None,
        Parameter(group=_WANTED, metavar="TEXT", help="Say what excludes a plan: 'tp=16 pp=2'."),
    ] = None,
    html: Annotated[
        str | None,
        Parameter(group=_OUT, metavar="FILE", help="Draw the plans of the search, as a page."),
    ] = None,
    export: Annotated[
        str | None,
        Parameter(
            group=_OUT,
            metavar="TOOL",
            help="Search what a launcher can be told, and print the best plan as its file alone.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    limits: LimitFlags = _NO_LIMITS,
    **flags: Any,
) -> int:
    """Find the plan to launch, among all that are legal.

    A file (--config, --plan-file) says what all plans share; its degrees are searched.
    Exit code 3 means that nothing fits; the nearest plan is printed all the same. Interrupted,
    the best so far is printed.
    """
    from tonnage.search import KNOBS, Question

    knobs, rest = _split(flags)
    if not offload:
        _refuse_offload(knobs)
    wanted = None if why_not is None else wanted_of(why_not)
    _check_page(html)
    word = _word("objective", objective, _OBJECTIVES)
    several: Several = "every" if word == "gpus" else "doubled"
    run = gather(model, source, cluster, limits, rest, several=several, chosen=KNOBS)
    shared = Shared.of(run) if source.config or source.plan_file else None
    question = Question(
        architecture=run.architecture,
        clusters=run.clusters,
        base=run.plan if shared is None else shared.base,
        choices=knobs,
        limits=run.limits,
        objective=word,  # type: ignore[arg-type]
        prices=limits.prices(),
        deadline=_seconds(deadline),
        budget=None if budget is None else parse_money(budget, field="budget"),
        max_nodes=None if max_nodes is None else whole("max_nodes", max_nodes),
        offload=offload,
        top=whole("top", top),
    )
    free = question
    if export is not None:
        question = for_export(export, question, asked=flags.get("runtime"))
    answer = _found(question)
    if html is not None:
        _draw(question, answer, html)
    asked = wanted is not None and answer.complete  # what is asked needs a search of its own
    reason = None
    if asked and wanted:
        reason = _untold(export, free, wanted) or _reason(question, answer, wanted)
    if export is not None:
        if reason is not None and not as_json:
            print(f"why not: {reason.text}", file=sys.stderr)
        own = None if shared is None else shared.weigh(question)
        data = _data(answer, reason, shared, own) if as_json else None
        return show_found(question, answer, export, data=data)
    return _show(question, answer, reason, shared, as_json=as_json)


def _check_page(path: str | None) -> None:
    """Refuse a page that cannot be written or drawn before there is a search to draw."""
    if path is not None:
        from tonnage.report.page import graph_objects

        check_page_name(path)
        graph_objects()


def _found(question: Question) -> SearchAnswer:
    from tonnage.report.progress import progress_share
    from tonnage.search import find_plans

    with progress_share("plans", stream=sys.stderr) as note:
        return find_plans(question, note)


def _draw(question: Question, answer: SearchAnswer, path: str) -> None:
    from tonnage.cli.written import write_page
    from tonnage.estimation import timeline
    from tonnage.report.plan_html import plan_page

    run = None
    if answer.plans:
        best = answer.plans[0].estimate
        chosen = best.cluster.device, best.cluster.gpus
        where = next(c for c in question.clusters if (c.device.name, c.gpus) == chosen)
        run = timeline(question.architecture, best.plan, where, question.limits)
    write_page(plan_page(question, answer, run), path)


def _split(flags: Mapping[str, Any]) -> tuple[dict[str, tuple[Any, ...]], dict[str, Any]]:
    """What the search is kept to by knob, and what all plans share."""
    from tonnage.search import KNOBS

    knobs = {name: value for name, value in flags.items() if name in KNOBS and value is not None}
    rest = {name: value for name, value in flags.items() if name not in KNOBS}
    return choices_of(knobs), plan_changes(rest)


def _refuse_offload(knobs: Mapping[str, tuple[Any, ...]]) -> None:
    """``--no-offload`` rules out what another flag asks for."""
    from tonnage.runtime import OFFLOADS

    for field in OFFLOADS:
        asked = [value for value in knobs.get(field, ()) if value]
        if asked:
            problem, accepted = "is given beside --no-offload", "one of the two"
            raise InputError(field=field, value=asked[0], problem=problem, accepted=accepted)


def _word(field: str, text: str, known: tuple[str, ...]) -> str:
    """One of a few words."""
    word = text.strip().lower()
    if word not in known:
        raise InputError(field=field, value=text, problem="is not known", accepted=", ".join(known))
    return word


def _seconds(text: str | None) -> float | None:
    from tonnage.quantity import parse_seconds

    return None if text is None else parse_seconds(text, field="deadline")


def _reason(question: Question, answer: SearchAnswer, wanted: Mapping[str, Any]) -> Reason:
    """What excludes the plans with some values."""
    from tonnage.search import why_not

    return why_not(question, wanted, answer.plans[0] if answer.plans else None)


def _untold(kind: str | None, question: Question, wanted: Mapping[str, Any]) -> Reason | None:
    """That a tool cannot be told the values that are asked about."""
    if kind is None:
        return None
    from tonnage.formats.expressible import untold
    from tonnage.search import Reason

    text = untold(kind, question, wanted)
    return Reason(verdict="illegal", text=text, parts={}, estimate=None) if text else None


def _data(
    answer: SearchAnswer,
    reason: Reason | None,
    shared: Shared | None,
    own: Estimate | InputError | None,
) -> dict[str, Any]:
    data = answer.to_dict()
    if reason is not None:
        data["why_not"] = reason.to_dict()
    if shared is not None and own is not None:
        data["config"] = shared.to_dict(own)
    return data


def _show(
    question: Question,
    answer: SearchAnswer,
    reason: Reason | None,
    shared: Shared | None,
    *,
    as_json: bool,
) -> int:
    own = None if shared is None else shared.weigh(question)
    if as_json:
        print_json(_data(answer, reason, shared, own))
    else:
        from tonnage.report.plan import print_plans

        for line in () if shared is None else shared.lines():
            print(line)
        print_plans(question, answer, reason, own)
    if not answer.complete:
        return 130
    return 0 if answer.plans else 3
