from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.cli.app import VERBS
from tonnage.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_is_what_the_help_says() -> None:
    """Rewrite it with ``python -m tonnage.cli.reference > docs/reference/cli.md``."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_every_verb_is_on_the_page() -> None:
    for verb in (*VERBS, "napkin time", "napkin max-params"):
        assert f"## tonnage {verb}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("verb", [(), *((verb,) for verb in VERBS), ("napkin", "time")])
def test_help_says_what_it_must(verb: tuple[str, ...]) -> None:
    result = run(*verb, "--help")
    assert result.code == 0
    assert result.err == ""
    assert result.out.startswith(f"Usage: {' '.join(('tonnage', *verb))}")
    assert "Exit codes: 0 ok" in result.out
    assert all(len(line) <= 80 for line in result.out.splitlines())
    assert run(*verb, "-h").out == result.out


def test_every_entry_of_every_page_is_documented() -> None:
    entries = [line for line in reference().splitlines() if line.startswith("  -")]
    assert len(entries) > 60
    lines = reference().splitlines()
    for entry in entries:
        words = entry[30:].strip() if len(entry) > 30 and entry[28:30] == "  " else ""
        below = lines[lines.index(entry) + 1]
        assert words or below.startswith(" " * 30), entry
