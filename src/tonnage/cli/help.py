"""Help as a page of text: names on the left, what they do on the right, no boxes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDEST = 100
_NAMES = 28
_INDENT = 2
NARROWEST = _NAMES + _INDENT + 20
"""What the names leave is room for words, however few columns a terminal says that it has."""


class PlainHelp:
    """What cyclopts calls a help formatter: it prints the parts of a page one by one."""

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """Print the usage line, which is short enough for every width."""
        del options
        print(f"Usage: {_text(usage)}", file=console.file)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: object
    ) -> None:
        """Print what a verb does, a paragraph at a time."""
        for paragraph in _text(description).split("\n\n"):
            lines = textwrap.wrap(paragraph, width=_width(options), break_on_hyphens=False)
            print("", *lines, sep="\n", file=console.file)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of flags or of verbs."""
        if not panel.entries:
            return
        lines = ["", f"{panel.title}:"]
        for entry in panel.entries:
            lines += _entry(_names(entry), _description(entry), _width(options))
        print(*lines, sep="\n", file=console.file)


def _width(options: ConsoleOptions) -> int:
    return min(max(options.max_width, NARROWEST), WIDEST)


def _entry(names: str, description: str, width: int) -> Iterable[str]:
    """One entry; names that are too long for their column get a line of their own."""
    left = " " * _INDENT + names
    body = textwrap.wrap(
        description, width=width - _NAMES - _INDENT, break_on_hyphens=False, break_long_words=False
    )
    column = " " * (_NAMES + _INDENT)
    if len(left) + _INDENT <= len(column):
        yield f"{left:<{len(column)}}{body[0] if body else ''}".rstrip()
        body = body[1:]
    else:
        yield left
    yield from (column + line for line in body)


def _names(entry: HelpEntry) -> str:
    """Every name of an entry; ``--[no-]sp`` for one that can be turned off."""
    if entry.positional_label:
        return entry.positional_label
    negative = set(entry.negative_names)
    names = [
        f"--[no-]{name[2:]}" if f"--no-{name[2:]}" in negative else name
        for name in (*entry.positive_names, *entry.positive_shorts)
    ]
    return ", ".join(names) + (f" {entry.metavar}" if entry.metavar else "")


def _description(entry: HelpEntry) -> str:
    parts = [_text(entry.description)]
    if entry.default is not None:
        parts.append(f"[default: {entry.default}]")
    if entry.required:
        parts.append("[required]")
    return " ".join(part for part in parts if part)


def _text(description: object) -> str:
    """The words of a renderable: cyclopts wraps help in one, and one in another."""
    inner = getattr(description, "primary_renderable", description)
    return str(getattr(inner, "plain", inner) or "").strip()
