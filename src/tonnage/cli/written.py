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
    """Refuse a name that is not a page's, before there is anything to write.

    Raises:
        InputError: it does not end in .html.
    """
    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise InputError(
            field="html", value=str(path), problem="is not the name of a page", accepted="*.html"
        )


def write_page(page: Page, path: str | Path) -> None:
    """Write a page, and say on stderr how large it is.

    Raises:
        InputError: it cannot be written.
    """
    size = page.write(path)
    print(f"{path}: {format_bytes(size)}, one file, drawn without a network", file=sys.stderr)
