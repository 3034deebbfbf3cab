"""The README and the how-to pages show what their commands print.

``python -m tests.cli.test_documented`` runs the commands again and rewrites the pages.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import tempfile
from pathlib import Path

import pytest

from tests.cli.running import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
_BLOCK = re.compile(r"^```(toml|yaml|sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w.-]+\.\w+)\n")
_STDIN = re.compile(r"(echo|printf) '(.*)' \| ")
_PIPE = re.compile(r" \| (head -|cut -c-)(\d+)$")


def refreshed(page: str) -> str:
    """The page with the output of every command as it is now; files go to a scratch folder.

    A block whose first line is a comment with a name is a file of that name.
    """

    def again(match: re.Match[str]) -> str:
        language, text = match.groups()
        named = _NAMED.match(text)
        if named or language == "toml":
            Path(named[1] if named else "plan.toml").write_text(text, encoding="utf-8")
        elif language == "console" and "tonnage" in text:
            command, *shown = text.splitlines()
            text = "\n".join([command, *_output(command, shown), ""])
        return f"```{language}\n{text}```"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _BLOCK.sub(again, page)


def _output(command: str, shown: list[str]) -> list[str]:
    """What a line of the shell prints, as far as the page shows it (to a last line ``…``)."""
    command = command.removeprefix("$ ")
    given, pipe = _STDIN.match(command), _PIPE.search(command)
    command = _PIPE.sub("", _STDIN.sub("", command))
    assert command.startswith("tonnage "), f"a page pipes in what no test can: {command}"
    words, _, file = command.removeprefix("tonnage ").partition(" > ")
    result = run(*shlex.split(words), stdin=_piped(given) if given else "")
    assert result.code in {0, 2, 3}, result.err
    if file:
        Path(file).write_text(result.out, encoding="utf-8")
        return result.err.splitlines()
    lines = (result.out + result.err).splitlines()
    if pipe:
        count = int(pipe[2])
        lines = lines[:count] if pipe[1] == "head -" else [line[:count] for line in lines]
    return [*lines[: len(shown) - 1], "…"] if shown[-1:] == ["…"] else lines


def _piped(given: re.Match[str]) -> str:
    """What ``echo`` or ``printf`` gives to the command after it."""
    command, text = given.groups()
    return text.replace("\\n", "\n") if command == "printf" else f"{text}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_show_what_commands_print(page: Path) -> None:
    pytest.importorskip("sympy")
    pytest.importorskip("ml_dtypes")
    text = page.read_text(encoding="utf-8")
    assert refreshed(text) == text


if __name__ == "__main__":
    for found in PAGES:
        found.write_text(refreshed(found.read_text(encoding="utf-8")), encoding="utf-8")
