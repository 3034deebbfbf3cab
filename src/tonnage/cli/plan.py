"""``tonnage plan``: the best plan, why it is the best, and what it is chosen from."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.export import for_export, show_found
from tonnage.cli.flags import field_types, plan_changes, with_plan_flags
from tonnage.cli.limits import DEAREST, LimitFlags
from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.run import WHAT
from tonnage.cli.stdin import show_hyphen
from tonnage.cli.values import parse, whole
from tonnage.cli.written import check_page_name
from tonnage.errors import InputError
from tonnage.plan import Plan

if TYPE_CHECKING:
    from tonnage.search import Question, Reason, SearchAnswer

_WANTED = Group("What is wanted", sort_key=2)
_OUT = Group("Output", sort_key=90)
_NO_CLUSTER = ClusterFlags()
_NO_LIMITS = LimitFlags()
_OBJECTIVES = ("time", "cost", "gpus", "headroom")


@with_plan_flags
def plan(
    model: Annotated[
        str,
        Parameter(group=WHAT, help="A catalog name, a config.json, a folder, - or a hub name."),
    ],
    /,
    *,
    cluster: ClusterFlags = _NO_CLUSTER,
    objective: Annotated[
        str, Parameter(group=_WANTED, help=f"What is best: {', '.join(_OBJECTIVES)}.")
    ] = "time",
    price: Annotated[
        str | None,
        Parameter(
            group=_WANTED,
            metavar="X",
            help="Money for a GPU-hour: 2.5, or by device: H100=2.5,B200=6.",
        ),
    ] = None,
    deadline: Annotated[
        str | None, Parameter(group=_WANTED, metavar="TIME", help="What the run may take: 30d.")
    ] = None,
    budget: Annotated[
        str | None, Parameter(group=_WANTED, metavar="X", help="What the run may cost: 2M.")
    ] = None,
    max_nodes: Annotated[
        str | None, Parameter(group=_WANTED, metavar="N", help="Hosts that a cluster may have.")
    ] = None,
    top: Annotated[
        str, Parameter(group=_WANTED, metavar="N", help="How many plans to answer with.")
    ] = "5",
    why_not: Annotated[
        str | None,
        Parameter(group=_WANTED, metavar="TEXT", help="Say what excludes a plan: 'tp=16 pp=2'."),
    ] = None,
    html: Annotated[
        str | None,
        Parameter(group=_OUT, metavar="FILE", help="Draw every plan that was weighed, as a page."),
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

    Exit code 3 means that nothing fits; the nearest plan is printed all the same. Interrupted,
    the best so far is printed.
    """
    from tonnage.arch import load
    from tonnage.search import Question

    choices, base = _split(flags)
    question = Question(
        architecture=load(show_hyphen(model)),
        clusters=cluster.read_all(),
        base=base,
        choices=choices,
        limits=limits.read(),
        objective=_objective(objective),  # type: ignore[arg-type]
        prices=_prices(price),
        deadline=_seconds(deadline),
        budget=_money("budget", budget),
        max_nodes=None if max_nodes is None else whole("max_nodes", max_nodes),
        top=whole("top", top),
    )
    free = question
    if export is not None:
        question = for_export(export, question, asked=flags.get("runtime"))
    wanted = None if why_not is None else _wanted(why_not)
    if html is not None:
        check_page_name(html)
    answer = _found(question)
    if html is not None:
        from tonnage.report.plan_html import write

        write(answer, html)
    asked = wanted is not None and answer.complete  # what is asked needs a search of its own
    reason = None
    if asked and wanted:
        reason = _untold(export, free, wanted) or _reason(question, answer, wanted)
    if export is not None:
        if reason is not None and not as_json:
            print(f"why not: {reason.text}", file=sys.stderr)
        data = _data(answer, reason) if as_json else None
        return show_found(question, answer, export, data=data)
    return _show(question, answer, reason, as_json=as_json)


def _found(question: Question) -> SearchAnswer:
    from tonnage.report.progress import progress_share
    from tonnage.search import find_plans

    with progress_share("plans", stream=sys.stderr) as note:
        return find_plans(question, note)


def _split(flags: Mapping[str, Any]) -> tuple[dict[str, tuple[Any, ...]], Plan]:
    """What the search is kept to by knob, and what all plans share."""
    from tonnage.search import KNOBS

    knobs = {name: value for name, value in flags.items() if name in KNOBS and value is not None}
    rest = {name: value for name, value in flags.items() if name not in KNOBS}
    changes: dict[str, Any] = dict(plan_changes(rest))
    return choices_of(knobs), Plan(**changes)


def choices_of(knobs: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Values by knob, from lists as people write them (``1,2,4``).

    Raises:
        InputError: a text is no value of its knob.
    """
    hints = field_types()
    found: dict[str, tuple[Any, ...]] = {}
    for name, given in knobs.items():
        if isinstance(given, bool):
            found[name] = (given,)
        elif name == "recompute":
            found.update(_recompute(str(given)))
        elif name == "recompute_modules":
            found[name] = (parse(name, hints[name], given),)
        elif hints[name] is bool:
            found[name] = tuple(_truth(name, item) for item in str(given).split(","))
        else:
            found[name] = tuple(parse(name, hints[name], item) for item in str(given).split(","))
    return found


def _recompute(text: str) -> dict[str, tuple[Any, ...]]:
    """``none,every-4``: values of the three fields that say what is recomputed."""
    found: dict[str, list[Any]] = {}
    for word in text.split(","):
        for field, value in plan_changes({"recompute": word}).items():
            values = found.setdefault(field, [])
            if value not in values:
                values.append(value)
    return {field: tuple(values) for field, values in found.items()}


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return word in ("true", "yes", "on", "1")
    raise InputError(field=name, value=text, problem="is neither yes nor no", accepted="yes or no")


def _objective(text: str) -> str:
    word = text.strip().lower()
    if word not in _OBJECTIVES:
        raise InputError(
            field="objective", value=text, problem="is not known", accepted=", ".join(_OBJECTIVES)
        )
    return word


def _prices(text: str | None) -> dict[str, float]:
    """Money for a GPU-hour by device; of every device where none is named."""
    if text is None:
        return {}
    from tonnage.cluster import find_device

    prices: dict[str, float] = {}
    for item in text.split(","):
        name, named, price = item.rpartition("=")
        device = find_device(name.strip(), field="price").name if named else ""
        if device in prices:
            raise InputError(
                field="price",
                value=text,
                problem=f"prices {device or 'every device'} twice",
                accepted="2.5, or H100=2.5,B200=6",
            )
        prices[device] = _money("price", price) or 0.0
    return prices


def _money(field: str, text: str | None) -> float | None:
    if text is None:
        return None
    units = {"k": 1e3, "m": 1e6, "b": 1e9}
    number = text.strip().replace(",", "").lstrip("$€£")
    scale = units.get(number[-1:].lower(), 1.0)
    value = parse(field, float, number[:-1] if scale > 1 else number)
    assert isinstance(value, float)
    if not 0 < value * scale <= DEAREST:
        problem = "is not over 0" if value <= 0 else "is over 1e15"
        raise InputError(field=field, value=text, problem=problem, accepted="2.5 or 2M")
    return value * scale


def _seconds(text: str | None) -> float | None:
    from tonnage.quantity import parse_seconds

    return None if text is None else parse_seconds(text, field="deadline")


def _wanted(text: str) -> dict[str, Any]:
    """The values of ``tp=16 pp=2``, by knob."""
    from tonnage.plan.values import check_values
    from tonnage.search import KNOBS

    wanted: dict[str, Any] = {}
    for word in text.replace(",", " ").split() or [text]:
        name, equals, value = word.partition("=")
        knob = name.lstrip("-").replace("-", "_")
        if not equals or knob not in KNOBS or knob in wanted:
            raise InputError(
                field="why_not",
                value=word,
                problem="is given twice" if knob in wanted else "is not a knob and its value",
                accepted=f"such as tp=16; knobs are {', '.join(KNOBS)}",
            )
        given: Any = [value] if knob == "recompute_modules" else value
        wanted.update({name: values[0] for name, values in choices_of({knob: given}).items()})
    check_values(Plan(**wanted))
    return wanted


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


def _show(question: Question, answer: SearchAnswer, reason: Reason | None, *, as_json: bool) -> int:
    if as_json:
        print_json(_data(answer, reason))
    else:
        from tonnage.report.plan import print_plans

        print_plans(question, answer, reason)
    if not answer.complete:
        return 130
    return 0 if answer.plans else 3


def _data(answer: SearchAnswer, reason: Reason | None) -> dict[str, Any]:
    """The answer as JSON has it: the cloud is for figures."""
    data = {
        field.name: getattr(answer, field.name)
        for field in dataclasses.fields(answer)
        if field.name != "cloud"
    }
    if reason is not None:
        data["why_not"] = reason
    return {name: _plain(value) for name, value in data.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
