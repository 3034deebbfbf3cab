"""The answer of a search on a terminal: the verdict, the launch flags, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.plan.words import changed_fields, flag_words, recompute_text
from tonnage.quantity import format_percent, format_seconds
from tonnage.report.layout import bullets, console, heading, listing, print_block
from tonnage.report.memory import gib

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate
    from tonnage.plan import Plan
    from tonnage.search import Proposal, Question, Reason, SearchAnswer

SHOWN = (
    *("tp", "sp", "pp", "vpp", "first_stage_layers", "last_stage_layers"),
    *("account_for_embedding", "account_for_loss", "cp", "ep", "etp", "zero", "hsdp_shard"),
    *("mbs", "gbs", "seq", "recompute", "recompute_method", "recompute_num_layers"),
    *("recompute_modules", "loss", "offload_parameters", "precision"),
)
"""The fields of a plan that its launch flags name, in order."""

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "dp", "mbs", "zero")
"""What the table of the best plans shows of each."""

NARROW = ("tp", "pp", "cp", "ep", "dp", "mbs")
"""The same where clusters and prices need room too."""

OF_FRONTIER = ("tp", "pp", "vpp", "cp", "ep", "mbs", "zero")
"""What the frontier shows of each plan."""

FRONTIER_ROWS = 12
"""Points of the frontier that a terminal shows."""


def print_plans(
    question: Question,
    answer: SearchAnswer,
    reason: Reason | None = None,
    screen: Console | None = None,
) -> None:
    """Print the answer of a search.

    Args:
        question: what was asked.
        answer: what was found.
        reason: what excludes the plans that were asked about.
        screen: where; None: stdout.
    """
    screen = screen or console()
    if answer.plans:
        _print_best(screen, question, answer)
    else:
        _print_nothing(screen, question, answer)
    if reason is not None:
        heading(screen, "Why not", "the best plan with these values")
        print_block(screen, reason.text)
        _print_parts(screen, question, reason)
    if answer.plans:
        _print_top(screen, question, answer)
        _print_bindings(screen, answer)
        _print_frontier(screen, answer)
        _print_neighbours(screen, answer)
        _print_assumed(screen, answer.plans[0].estimate)


def launch_words(question: Question, plan: Plan) -> str:
    """The flags that say what a plan is: what was chosen and is not usual, and what was given."""
    fields = {name: getattr(plan, name) for name in SHOWN}
    for name in ("vpp", "cp", "ep"):
        if fields[name] == 1:
            fields[name] = None
    for name in ("account_for_embedding", "account_for_loss", "offload_parameters"):
        fields[name] = fields[name] or None
    if plan.tp == 1:
        fields["sp"] = None
    if not question.architecture.is_moe:
        fields["etp"] = None
    if plan.recompute != "full":
        fields |= {"recompute_method": None, "recompute_num_layers": None}
    if plan.recompute != "selective":
        fields["recompute_modules"] = None
    if plan.schedule != ("interleaved" if plan.vpp > 1 else "1f1b"):
        fields["schedule"] = plan.schedule
    given = changed_fields(question.base)
    return " ".join(flag_words({"runtime": plan.runtime, **given, **fields}))


def _print_best(screen: Console, question: Question, answer: SearchAnswer) -> None:
    best = answer.plans[0].estimate
    cluster = best.cluster
    name = Text.assemble((best.model.name, "bold"), " ", ("fits", "bold green"))
    print_block(screen, name + Text(f" on {cluster.gpus} x {cluster.device}"), indent=0)
    counts = (
        f"{_many(answer.space)} legal plans: {_many(answer.evaluated)} weighed, "
        f"{_many(answer.feasible)} within the limits; bounds exclude the others"
    )
    print_block(screen, Text(counts, "dim"), indent=0)
    if not answer.complete:
        print_block(screen, Text("interrupted: the best so far", "bold yellow"), indent=0)
    screen.print()
    step, memory = best.step, best.memory
    facts = (
        f"{format_seconds(step.seconds)} a step, {format_percent(step.mfu_causal)} MFU (causal), "
        f"{gib(memory.peak_bytes.device)} of {gib(memory.capacity_bytes)} GiB"
    )
    print_block(screen, facts)
    run = _run_text(question, answer.plans[0])
    if run:
        print_block(screen, run)
    screen.print()
    print_block(screen, Text(launch_words(question, best.plan), "bold"))


def _run_text(question: Question, best: Proposal) -> str:
    run = best.estimate.run
    parts = [] if run is None else [f"{run.days:,.1f} days, {run.gpu_hours:,.0f} GPU-hours"]
    if best.cost is not None:
        parts.append(f"costs {best.cost:,.2f} {'a step' if run is None else 'for the run'}")
    if question.objective != "time":
        parts.append(f"best by {question.objective}")
    return "; ".join(parts)


def _print_nothing(screen: Console, question: Question, answer: SearchAnswer) -> None:
    said = "no plan meets the limits" if answer.complete else "interrupted before a plan was found"
    name = Text.assemble((question.architecture.name, "bold"), ": ", (said, "bold red"))
    print_block(screen, name, indent=0)
    counts = f"{_many(answer.space)} legal plans, {_many(answer.evaluated)} of them weighed"
    print_block(screen, Text(counts, "dim"), indent=0)
    if answer.nearest is None:
        return
    near = answer.nearest.estimate
    memory = near.memory
    heading(screen, "The nearest", "the plan that needs least memory")
    room = memory.headroom_bytes
    text = (
        f"{gib(memory.peak_bytes.device)} of {gib(memory.capacity_bytes)} GiB"
        + (f", {gib(-room)} GiB too much" if room < 0 else ": it fits, and misses another limit")
        + f"; {format_seconds(near.step.seconds)} a step"
    )
    print_block(screen, text)
    print_block(screen, Text(launch_words(question, near.plan), "bold"))


def _print_parts(screen: Console, question: Question, reason: Reason) -> None:
    if not reason.parts:
        return
    rows = [
        (part, f"{seconds:+.3f} s")
        for part, seconds in sorted(reason.parts.items(), key=lambda item: -abs(item[1]))
    ]
    listing(screen, (("part", "left"), ("longer by", "right")), rows)
    if reason.estimate is not None:
        print_block(screen, Text(launch_words(question, reason.estimate.plan), "dim"))


def _print_top(screen: Console, question: Question, answer: SearchAnswer) -> None:
    several = len({(c.device.name, c.gpus) for c in question.clusters}) > 1
    priced = any(each.cost is not None for each in answer.plans)
    heading(screen, "The best plans", "one of each structure (tp, pp, cp, ep)")
    degrees = NARROW if several or priced else DEGREES
    columns = [("", "right"), *([("on", "left")] if several else [])]
    columns += [(name, "right") for name in degrees]
    columns += [("recompute", "left"), ("step", "right"), ("slower", "right"), ("GiB", "right")]
    columns += [("cost", "right")] if priced else []
    fastest = answer.plans[0].estimate.step.seconds
    rows = []
    for place, each in enumerate(answer.plans, 1):
        best = each.estimate
        cells = [str(place)]
        cells += [_short(question, best)] if several else []
        plan = best.plan
        cells += [str(getattr(plan, name)) for name in degrees]
        cells += [
            _recompute(plan),
            format_seconds(best.step.seconds),
            f"{best.step.seconds / fastest - 1:+.1%}",
            gib(best.memory.peak_bytes.device),
        ]
        cells += [f"{each.cost:,.2f}"] if each.cost is not None else []
        rows.append(cells)
    listing(screen, columns, rows)  # type: ignore[arg-type]


def _short(question: Question, best: Estimate) -> str:
    """A cluster by the first part of its device's name, where that tells the devices apart."""
    names = {cluster.device.name for cluster in question.clusters}
    short = {name.partition("-")[0] for name in names}
    device = best.cluster.device
    shown = device.partition("-")[0] if len(short) == len(names) else device
    return f"{best.cluster.gpus}x{shown}"


def _recompute(plan: Plan) -> str:
    """What a plan recomputes, as a column has room for it."""
    return _shorter(recompute_text(plan))


def _shorter(text: str) -> str:
    """Long names of modules and losses as a column has room for them."""
    short = {"core_attn": "attn", "layernorm": "norm", "activation": "act", "vocab-parallel": "vp"}
    for word, instead in short.items():
        text = text.replace(word, instead)
    return text


def _print_bindings(screen: Console, answer: SearchAnswer) -> None:
    heading(screen, "What binds")
    bullets(screen, [f"{each.name}: {each.remark}" for each in answer.bindings])


def _print_frontier(screen: Console, answer: SearchAnswer) -> None:
    heading(screen, "Step time against memory", "less memory for a longer step, to a quarter more")
    points = answer.frontier
    if len(points) > FRONTIER_ROWS:
        last = len(points) - 1
        points = tuple(points[round(i * last / (FRONTIER_ROWS - 1))] for i in range(FRONTIER_ROWS))
    columns = [("step", "right"), ("GiB", "right")]
    columns += [(name, "right") for name in OF_FRONTIER]
    rows = [
        [
            format_seconds(point.seconds),
            gib(point.device_bytes),
            *(str(getattr(point.plan, name)) for name in OF_FRONTIER),
            _recompute(point.plan),
        ]
        for point in points
    ]
    listing(screen, [*columns, ("recompute", "left")], rows)  # type: ignore[list-item]


def _print_neighbours(screen: Console, answer: SearchAnswer) -> None:
    heading(screen, "One step either way", "the best plan with one knob changed")
    rows = []
    for each in answer.neighbours:
        change = f"{_shorter(each.before)} -> {_shorter(each.after)}"
        if each.seconds is None or each.bytes is None:
            field = each.error.partition(":")[0]
            rows.append([each.knob, change, "", "", Text(f"not legal: {field}", "dim")])
            continue
        remark = Text("" if each.fits else "does not fit", "red")
        size = f"{each.bytes / 2**30:+.2f} GiB"
        rows.append([each.knob, change, f"{each.seconds:+.3f} s", size, remark])
    columns = (("knob", "left"), ("", "left"), ("step", "right"), ("memory", "right"), ("", "left"))
    listing(screen, columns, rows)  # type: ignore[arg-type]


def _print_assumed(screen: Console, best: Estimate) -> None:
    heading(screen, "Assumed")
    bullets(
        screen,
        [
            "the best plans are estimated one by one, as tonnage estimate does it",
            "memory that does not fit by the single figure excludes a plan: --margin keeps more "
            "free",
            *(note for note in best.assumptions if "not given" in note or "sustain" in note),
        ],
    )


def _many(count: int) -> str:
    return f"{count:,}"
