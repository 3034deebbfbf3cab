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


def write_page(page: Page, path: str | Path) -> None:
    """Write a page, and say on stderr how large it is.

    Raises:
        InputError: the file's name does not end in .html, or it cannot be written.
    """
    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise InputError(
            field="html", value=str(path), problem="is not the name of a page", accepted="*.html"
        )
    size = page.write(path)
    print(f"{path}: {format_bytes(size)}, one file, drawn without a network", file=sys.stderr)
