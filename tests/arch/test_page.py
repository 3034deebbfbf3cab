"""The page of families beside the families that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tonnage.arch.families import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "architectures.md"


def test_the_page_names_every_family_once() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row) if name != "model_type"]
    assert sorted(named) == sorted(FAMILIES)


def test_the_pages_that_it_points_to_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target
