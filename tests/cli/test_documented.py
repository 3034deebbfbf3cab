"""The commands of the how-to pages run, and end as the pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.running import run

PAGES = sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("*.md"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_end_as_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "toml":
            Path("plan.toml").write_text(text, encoding="utf-8")
        elif language == "console" and "tonnage" in text:
            command, _, output = text.removeprefix("$ ").partition("\n")
            _check(command, output)


def _check(command: str, output: str) -> None:
    if "explain" in command:
        pytest.importorskip("sympy")
    given, _, command = command.rpartition("| tonnage ")
    words, _, file = command.removeprefix("tonnage ").partition(" | ")[0].partition(" > ")
    result = run(*shlex.split(words), stdin=given.removeprefix("echo ").strip(" '"))
    refused = output.startswith("error:") or '"error"' in output
    assert result.code == (2 if refused else 3 if "does not fit" in output else 0), result
    if file:
        Path(file).write_text(result.out, encoding="utf-8")
    elif refused:
        assert (result.err or result.out).strip() == output.strip()
