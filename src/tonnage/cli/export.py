"""``--export TOOL``: a plan as the file or command that another tool is launched with.

Of `estimate` the plan that is given, of `plan` the best that the tool can be told.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.output import print_json
from tonnage.cli.run import Run
from tonnage.errors import InputError
from tonnage.plan import Plan

if TYPE_CHECKING:
    from tonnage.cluster import Cluster
    from tonnage.formats import Exported
    from tonnage.search import Proposal, Question, SearchAnswer


def show_export(run: Run, kind: str, given: Mapping[str, Any], *, as_json: bool) -> int:
    """Print a plan for a tool on stdout, and what the tool lacks on stderr.

    Args:
        run: what the command line asks for.
        kind: the tool.
        given: fields of the plan that flags set.
        as_json: print an object with the text and the warnings.

    Raises:
        InputError: there is no such tool, or it cannot be told the plan.
    """
    from tonnage.formats.export import export, for_tool

    plan, left = for_tool(kind, run.plan, given)
    written = export(kind, run.architecture, plan, run.cluster, steps=run.limits.steps)
    warnings = list(written.warnings)
    if left:
        warnings.insert(0, f"{', '.join(left)}: left to {plan.runtime}, which is another stack")
    if as_json:
        told = {"kind": kind, **dataclasses.asdict(written), "warnings": warnings}
        print_json({"export": told})
        return 0
    _print(written.text, warnings)
    return 0


def _print(text: str, warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    sys.stdout.write(text)


def for_export(kind: str, question: Question, *, asked: str | None) -> Question:
    """A question on the stack of a tool, kept to what the tool can be told.

    Args:
        kind: the tool.
        question: what is asked.
        asked: the runtime that the person names, or None.

    Raises:
        InputError: there is no such tool, it is another stack, or it cannot be told what is
            asked for.
    """
    from tonnage.formats.export import tool
    from tonnage.formats.expressible import kept_to

    base = dataclasses.replace(question.base, runtime=tool(kind).runtime(asked))
    return kept_to(kind, dataclasses.replace(question, base=base))


def show_found(
    question: Question, answer: SearchAnswer, kind: str, *, data: dict[str, Any] | None
) -> int:
    """Print the best plan of a search for a tool; on stderr what it is, and what the tool lacks.

    Args:
        question: what was asked.
        answer: what was found.
        kind: the tool.
        data: the answer as JSON has it, to be printed with what is written; None: no JSON.

    Raises:
        InputError: the tool can be told none of the plans.
    """
    best, written = _first_that_can_be_told(question, answer, kind)
    warnings = list(written.warnings) if written else []
    if best is not None and best is not answer.plans[0]:
        warnings.insert(0, f"{kind} cannot be told the best plan: another is written")
    if data is not None:
        told = written and {"kind": kind, "text": written.text, "warnings": warnings}
        print_json({**data, "export": told})
    elif best is None or written is None:
        said = "nothing fits: tonnage plan without --export says what comes nearest"
        print(said if answer.complete else "interrupted before a plan was found", file=sys.stderr)
    else:
        print(f"plan: {_summary(best)}", file=sys.stderr)
        _print(written.text, warnings)
    if not answer.complete:
        return 130
    return 0 if best is not None else 3


def _first_that_can_be_told(
    question: Question, answer: SearchAnswer, kind: str
) -> tuple[Proposal | None, Exported | None]:
    from tonnage.formats.export import export
    from tonnage.search import KNOBS

    refused: InputError | None = None
    for found in answer.plans:
        chosen: dict[str, Any] = {name: getattr(found.plan, name) for name in KNOBS}
        where = _where(question, found)
        plan = _brief(dataclasses.replace(question.base, **chosen), question, where)
        try:
            return found, export(
                kind, question.architecture, plan, where, steps=question.limits.steps
            )
        except InputError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return None, None


def _brief(plan: Plan, question: Question, where: Cluster) -> Plan:
    """The plan without what would be filled in as it is: a tool need not have a word for it."""
    from tonnage.plan import resolve
    from tonnage.search import KNOBS

    whole = resolve(plan, question.architecture, where).plan
    for knob in KNOBS:
        blank = dataclasses.replace(plan, **{knob: getattr(Plan(), knob)})
        with contextlib.suppress(InputError):
            if resolve(blank, question.architecture, where).plan == whole:
                plan = blank
    return plan


def _where(question: Question, found: Proposal) -> Cluster:
    """The cluster of a plan, among those that were searched."""
    part = found.estimate.cluster
    return next(
        each
        for each in question.clusters
        if (each.device.name, each.gpus, each.nodes) == (part.device, part.gpus, part.nodes)
    )


def _summary(found: Proposal) -> str:
    """What is written, in a line."""
    from tonnage.plan.words import recompute_text

    plan, answer = found.plan, found.estimate
    degrees = [(n, getattr(plan, n)) for n in ("tp", "pp", "vpp", "cp", "ep", "dp", "mbs")]
    named = " ".join(f"{n} {v}" for n, v in degrees if v != 1)
    where = f"{answer.cluster.gpus} x {answer.cluster.device}"
    return (
        f"{named} zero {plan.zero}, recompute {recompute_text(plan)}: {answer.step.seconds:.3g} s "
        f"a step, {answer.memory.peak_bytes.device / 2**30:.2f} GiB on {where}"
    )
