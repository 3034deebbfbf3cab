"""Pages that a verb writes beside its answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.quantity import format_bytes

if TYPE_CHECKING:
    from tonnage.report.page import Page


def check_page_name(path: str | Path) -> None:
    """Refuse a name that no page can be written to, before there is anything to write.

    Raises:
        InputError: it does not end in .html, is a folder, or is in a folder that is not there.
    """
    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise InputError(
            field="html", value=str(path), problem="is not the name of a page", accepted="*.html"
        )
    check_place("html", path)


def check_place(field: str, path: str | Path) -> None:
    """Refuse a file that cannot be where it is asked for, before there is anything to write.

    Raises:
        InputError: it is a folder, or is in a folder that is not there.
    """
    whole = os.path.isdir(path)
    if whole or not os.path.isdir(os.path.dirname(path) or os.curdir):
        problem = "cannot be written: " + ("it is a folder" if whole else "it has no folder")
        raise InputError(
            field=field, value=str(path), problem=problem, accepted="a file in a folder that exists"
        )


def write_page(page: Page, path: str | Path) -> None:
    """Write a page, and say on stderr how large it is.

    Raises:
        InputError: it cannot be written.
    """
    size = page.write(path)
    print(f"{path}: {format_bytes(size)}, one file, drawn without a network", file=sys.stderr)
