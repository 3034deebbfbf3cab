"""The reference of the command line as one page: every verb's own help.

``python -m tonnage.cli.reference > docs/reference/cli.md`` writes it, and a test compares.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from cyclopts import App

from tonnage.cli.app import make_app

_WIDTH = 88

_INTRODUCTION = """# The command line

Data goes to stdout and all else to stderr. With `--json` the data is JSON with a
`schema_version`, in SI bytes and seconds, and so are errors:
`{"schema_version": 1, "error": {"field", "value", "accepted", "hint", "message"}}`.

| exit code | meaning |
|---|---|
| 0 | ok |
| 1 | failed |
| 2 | usage: a value that cannot be used |
| 3 | the run does not fit; the whole answer is printed all the same |
| 4 | an optional part is missing; the message names the extra to install |
| 130 | interrupted |
"""


def reference() -> str:
    """The page."""
    app = make_app()
    pages = [_INTRODUCTION, _page(app, ())]
    pages += [_page(app, path) for path in _paths(app, ())]
    return "\n".join(pages)


def _paths(app: App, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every verb below an app, in the order of the help."""
    for name, child in app.resolved_commands().items():
        if not name.startswith("-"):
            yield (*path, name)
            yield from _paths(child, (*path, name))


def _page(app: App, path: tuple[str, ...]) -> str:
    from rich.console import Console

    text = io.StringIO()
    screen = Console(file=text, width=_WIDTH, color_system=None)
    app.help_print(path, console=screen)
    lines = "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())
    return f"## {' '.join(('tonnage', *path))}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
