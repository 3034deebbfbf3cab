"""The answer of a search on a terminal: the verdict, the launch flags, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.errors import InputError
from tonnage.estimation.run import SECONDS_PER_DAY
from tonnage.plan.words import changed_fields, flag_words, recompute_text
from tonnage.quantity import GIB, format_percent, format_seconds
from tonnage.report.layout import bullets, console, heading, listing, print_block
from tonnage.report.memory import gib
from tonnage.runtime import OFFLOADS, runtime

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate
    from tonnage.plan import Plan
    from tonnage.search import Proposal, Question, Reason, SearchAnswer

SHOWN = (
    *("tp", "sp", "pp", "vpp", "first_stage_layers", "last_stage_layers"),
    *("account_for_embedding", "account_for_loss", "cp", "cp_comm"),
    *("ep", "etp", "zero", "hsdp_shard"),
    *("mbs", "gbs", "seq", "recompute", "recompute_method", "recompute_num_layers"),
    *("recompute_modules", "loss", *OFFLOADS, "precision"),
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
    own: Estimate | InputError | None = None,
    screen: Console | None = None,
) -> None:
    """Print the answer of a search.

    Args:
        question: what was asked.
        answer: what was found.
        reason: what excludes the plans that were asked about.
        own: the plan of the file that the question comes from, or why it cannot run here.
        screen: where; None: stdout.
    """
    screen = screen or console()
    if answer.plans:
        _print_best(screen, question, answer)
    else:
        _print_nothing(screen, question, answer)
    if own is not None:
        _print_own(screen, question, answer, own)
    if reason is not None:
        heading(screen, "Why not", "the best plan with these values")
        print_block(screen, reason.text)
        _print_parts(screen, question, reason)
    if answer.plans:
        _print_top(screen, question, answer)
        _print_bindings(screen, answer)
        _print_plainer(screen, answer)
        _print_frontier(screen, answer)
        _print_neighbours(screen, answer)
        _print_assumed(screen, answer)


def launch_words(question: Question, plan: Plan) -> str:
    """The flags that say what a plan is: what was chosen and is not usual, and what was given."""
    fields = {name: getattr(plan, name) for name in SHOWN}
    for name in ("vpp", "cp", "ep"):
        if fields[name] == 1:
            fields[name] = None
    for name in ("account_for_embedding", "account_for_loss", *OFFLOADS):
        fields[name] = fields[name] or None
    if plan.tp == 1:
        fields["sp"] = None
    if plan.cp == 1 or plan.cp_comm == runtime(plan.runtime).cp_comm:
        fields["cp_comm"] = None
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
    if best.plan.held_on_host:
        least = "it uses the host's memory, whose time is the least tested; --no-offload does not"
        print_block(screen, Text(least, "yellow"), indent=0)
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
    if answer.complete and not answer.space:
        counts = "every FLOP at the published peak takes longer than the limits allow"
    print_block(screen, Text(counts, "dim"), indent=0)
    if answer.nearest is None:
        return
    near, cost = answer.nearest.estimate, answer.nearest.cost
    memory = near.memory
    where = f"on {near.cluster.gpus} x {near.cluster.device}"
    heading(screen, "The nearest", f"{_nearest_by(question, near)}, {where}")
    room = memory.headroom_bytes
    parts = [
        f"{gib(memory.peak_bytes.device)} of {gib(memory.capacity_bytes)} GiB"
        + (f", {gib(-room)} GiB too much" if room < 0 else ": it fits"),
        f"{format_seconds(near.step.seconds)} a step",
    ]
    if near.run is not None and question.deadline is not None:
        days = question.deadline / SECONDS_PER_DAY
        parts.append(f"{near.run.days:,.1f} days, and the deadline is {days:,.1f}")
    if cost is not None and question.budget is not None:
        parts.append(f"costs {cost:,.2f}, and the budget is {question.budget:,.2f}")
    print_block(screen, "; ".join(parts))
    print_block(screen, Text(launch_words(question, near.plan), "bold"))


def _nearest_by(question: Question, near: Estimate) -> str:
    """What the nearest plan is the nearest by."""
    if near.fits and question.deadline is not None:
        return "the fastest plan"
    return "the plan on the fewest GPUs" if near.fits else "the plan that needs least memory"


def _print_own(
    screen: Console, question: Question, answer: SearchAnswer, own: Estimate | InputError
) -> None:
    first = question.clusters[0]
    heading(screen, "The file's plan", f"on {first.gpus} x {first.device.name}")
    if isinstance(own, InputError):
        print_block(screen, f"cannot run: {own.message}")
        return
    memory, seconds = own.memory, own.step.seconds
    beside = ""
    if answer.plans:
        beside = f" ({seconds / answer.plans[0].estimate.step.seconds - 1:+.1%})"
    room = "" if own.fits else f": {gib(-memory.headroom_bytes)} GiB too much"
    text = (
        f"{format_seconds(seconds)} a step{beside}, {gib(memory.peak_bytes.device)} of "
        f"{gib(memory.capacity_bytes)} GiB{room}"
    )
    print_block(screen, text)
    print_block(screen, Text(launch_words(question, own.plan), "dim"))


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
    """What a plan recomputes, as a column has room for it, and whether it uses host memory."""
    return _shorter(recompute_text(plan)) + (" +host" if plan.held_on_host else "")


def _shorter(text: str) -> str:
    """Long names of modules and losses as a column has room for them."""
    short = {"core_attn": "attn", "layernorm": "norm", "activation": "act", "vocab-parallel": "vp"}
    for word, instead in short.items():
        text = text.replace(word, instead)
    return text


def _print_bindings(screen: Console, answer: SearchAnswer) -> None:
    heading(screen, "What binds")
    bullets(screen, [f"{each.name}: {each.remark}" for each in answer.bindings])


def _print_plainer(screen: Console, answer: SearchAnswer) -> None:
    """The conventional choices that are as good as an estimate can tell."""
    if not answer.plainer:
        return
    best = answer.plans[0].estimate.step.seconds
    heading(screen, "As good, and plainer", "within 1% of the step: no estimate tells them apart")
    bullets(
        screen,
        [
            f"{each.knob} {_shorter(each.before)} -> {_shorter(each.after)}: "
            f"{(each.seconds or 0.0) / best:+.1%} of the step, {(each.bytes or 0) / GIB:+.2f} GiB"
            for each in answer.plainer
        ],
    )


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


def _print_assumed(screen: Console, answer: SearchAnswer) -> None:
    best = answer.plans[0].estimate
    how = {"replay": "by replay of their allocations", "closed form": "by the closed form"}
    notes = [
        "the best plans are estimated one by one, as tonnage estimate does it: whether they fit "
        f"is told {how[best.fits_by]}",
        "memory that does not fit by the single figure excludes a plan: --margin keeps more free",
    ]
    if answer.replayed:
        notes.append(
            f"{answer.replayed} plans that the closed bound of reserved memory excludes were "
            "replayed, the best first; the others it excludes are taken not to fit"
        )
    heading(screen, "Assumed")
    said = (note for note in best.assumptions if "not given" in note or "sustain" in note)
    bullets(screen, [*notes, *said])


def _many(count: int) -> str:
    return f"{count:,}"
