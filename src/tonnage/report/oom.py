"""A diagnosis of running out of memory on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.oom.suspects import MADE_IN
from tonnage.quantity import format_bytes
from tonnage.report.changes import print_changes
from tonnage.report.layout import bullets, console, facts, heading, listing, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.oom.diagnosis import Diagnosis, Run
    from tonnage.oom.log import Failure
    from tonnage.oom.message import Message
    from tonnage.oom.serving import CacheShortage

CHANGES_SHOWN = 8
SUSPECTS_SHOWN = 8
NAMES_SHOWN = 3

FRAME_SHOWN = 200
"""Characters of the deepest frame that are shown."""


def print_diagnosis(found: Diagnosis, screen: Console | None = None) -> None:
    """Print a diagnosis: the cause, the figures, the tensor, and what to change.

    Args:
        found: the diagnosis.
        screen: where; None: stdout.
    """
    screen = screen or console()
    print_block(screen, _headline(found), indent=0)
    failure = found.failure
    heading(screen, "Where", _where(failure))
    if failure.frame:
        print_block(screen, Text(failure.frame[:FRAME_SHOWN], "dim"))
    if failure.shortage is not None:
        facts(screen, _cache_rows(failure.shortage))
    if failure.message is not None:
        facts(screen, _message_rows(failure.message, found.size))
    if found.run is not None:
        _print_run(screen, found.run, found)
    if found.advice:
        heading(screen, "What to do", "by the message alone, what costs least first")
        bullets(screen, found.advice)


def _headline(found: Diagnosis) -> Text:
    if found.failure.shortage is not None:
        return Text.assemble(("cache too small", "bold red"), f": {found.failure.shortage.what}")
    assert found.verdict is not None
    return Text.assemble((found.verdict.cause, "bold red"), f": {found.verdict.why}")


def _where(failure: Failure) -> str:
    parts: list[str] = [failure.moment or "no traceback says at which moment"]
    if failure.rank is not None:
        parts.append(f"rank {failure.rank}")
    if failure.times > 1:
        parts.append(f"the first of {failure.times} messages")
    if failure.ranks > 1:
        parts.append(f"on {failure.ranks} ranks")
    if failure.truncated:
        parts.append("the log is longer than what is read of one")
    return ", ".join(parts)


def _cache_rows(shortage: CacheShortage) -> list[tuple[str, str, str]]:
    rows = []
    if shortage.needed is not None:
        rows.append(("needed", format_bytes(shortage.needed), ""))
    if shortage.available is not None:
        rows.append(("available", format_bytes(shortage.available), ""))
    if shortage.asked_tokens is not None:
        rows.append(("longest request asked for", f"{shortage.asked_tokens:,}", "tokens"))
    if shortage.capacity is not None:
        rows.append(("capacity", format_bytes(shortage.capacity), ""))
    if shortage.possible_tokens is not None:
        rows.append(("longest that fits", f"{shortage.possible_tokens:,}", "tokens"))
    return rows


def _message_rows(message: Message, size: str) -> list[tuple[str, str, str]]:
    named = (
        ("asked for", message.tried, size),
        ("free on the device", message.free, ""),
        ("allocated", message.allocated, "tensors"),
        ("held but unused", message.unallocated, "by the caching allocator"),
        ("in private pools", message.pools, "CUDA graphs, of the allocated"),
        ("outside the allocator", message.beyond, "context, libraries, communicators"),
        ("other processes", message.others, ""),
        ("held by whom is not said", message.elsewhere, "other processes, or libraries of this"),
        ("allowed", message.allowed, "the process' own limit"),
        (
            "capacity",
            message.capacity,
            f"device {message.device_index}" if _indexed(message) else "",
        ),
    )
    return [
        (name, format_bytes(figure), note) for name, figure, note in named if figure is not None
    ]


def _indexed(message: Message) -> bool:
    return message.device_index is not None


def _print_run(screen: Console, run: Run, found: Diagnosis) -> None:
    served = found.failure.shortage is not None
    what = "by the model" if served else "tensors of this run that take a request of that size"
    heading(screen, "What was asked for", what)
    if run.suspects:
        listing(
            screen,
            (("tensor", "left"), ("when", "left"), ("bytes", "right"), ("stages", "left")),
            _suspect_rows(run, found.failure.moment),
        )
    else:
        bullets(screen, [_no_suspect(found)])
    if served:
        return
    _print_expected(screen, run, found)
    note = "of the worst rank, by an estimate of it"
    if run.expected is not None:
        note += f"; then: at the {found.failure.moment}"
    heading(screen, "What each change saves", note)
    if not run.changes:
        bullets(screen, ["no single change saves more than a trifle"])
        return
    print_changes(screen, run.changes[:CHANGES_SHOWN], run.saved_then[:CHANGES_SHOWN])


def _suspect_rows(run: Run, moment: str | None) -> list[tuple[str, str, str, str]]:
    """A row for those that only their names tell apart; where any are of the moment, only these."""
    timely = [each for each in run.suspects if each.moment == MADE_IN.get(moment or "", moment)]
    rows: dict[tuple[str, int, tuple[int, ...]], list[str]] = {}
    for each in timely or run.suspects:
        rows.setdefault((each.moment, each.bytes, each.stages), []).append(each.name)
    return [
        (_names(names), moment, format_bytes(size), _stages(stages))
        for (moment, size, stages), names in list(rows.items())[:SUSPECTS_SHOWN]
    ]


def _names(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _no_suspect(found: Diagnosis) -> str:
    message = found.failure.message
    if message is None or message.tried is None:
        return "the log says not how much was asked for"
    if found.size:
        return found.size
    return "none: the log may be of another model, plan or stack than the one given"


def _stages(stages: tuple[int, ...]) -> str:
    return f"{stages[0]} to {stages[-1]}" if len(stages) > 2 else ", ".join(map(str, stages))


def _print_expected(screen: Console, run: Run, found: Diagnosis) -> None:
    """What the estimate has at that moment, beside what the message says was allocated."""
    memory, message = run.answer.memory, found.failure.message
    heading(screen, "Beside the estimate")
    rows = [
        ("estimated peak", format_bytes(memory.peak_bytes.allocated), f"at: {memory.peak_instant}"),
    ]
    if run.expected is not None:
        rows.append(("estimated then", format_bytes(run.expected), found.failure.moment or ""))
    if message is not None and message.allocated is not None and message.tried is not None:
        wanted = message.allocated + message.tried
        rows.append(("allocated and asked for", format_bytes(wanted), "by the message"))
    facts(screen, rows)
