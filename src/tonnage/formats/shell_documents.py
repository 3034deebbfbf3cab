"""Files that a script writes before it starts a trainer: ``cat > FILE <<EOF`` and its like.

The text of a here-document, with the variables that the script assigns in their place; nothing
is run, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tonnage.formats.shell_expand import LONGEST_VALUE, Values

_HERE = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_TARGET = re.compile(r">\s*([^\s<>|;&]+)|\btee\s+([^\s<>|;&-][^\s<>|;&]*)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
MOST_FILES = 20
LONGEST_LINE = 1_000
"""Of a line that opens a here-document."""


def written_files(text: str, values: Values) -> Mapping[str, str]:
    """The here-documents of a script by the names of the files that they become.

    Args:
        text: the script.
        values: what the script has assigned.
    """
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        here = _HERE.search(line) if len(line) < LONGEST_LINE and "<<" in line else None
        if here is None or line.lstrip().startswith("#"):
            continue
        body: list[str] = []
        for inner in lines:
            if inner.strip() == here[2]:
                break
            body.append(inner)
        target = _TARGET.search(_HERE.sub(" ", line))
        if target is not None and len(found) < MOST_FILES:
            name = _filled((target[1] or target[2]).strip("\"'"), values)
            written = "\n".join(body)[:LONGEST_VALUE]
            found[name] = written if here[1] else _filled(written, values)
    return found


def _filled(text: str, values: Values) -> str:
    """A text with variables in their place; one that is a list, or not assigned, stays."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1] or match[2])
        return found if isinstance(found, str) else match[0]

    return _VARIABLE.sub(value, text)
