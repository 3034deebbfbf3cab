"""Data on stdout: strict JSON, or text that the output's encoding can hold."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Mapping
from typing import Annotated, TextIO, TypeAlias

from cyclopts import Group, Parameter

SCHEMA_VERSION = 1
"""That of `tonnage.estimation`, which an error must not have to import."""

_OUTPUT = Group("Output", sort_key=90)

JsonFlag: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        group=_OUTPUT,
        help="Print JSON, errors too.",
        show_default=False,
    ),
]
"""The flag that every verb has."""

_PLAIN = {
    "×": "x",
    "·": "*",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "•": "-",
    "√": "sqrt",
    "µ": "u",
    "’": "'",
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", (f"^{digit}" for digit in "0123456789"), strict=True)),
}


def print_json(data: Mapping[str, object]) -> None:
    """Print data, and the version of its schema, as JSON that any parser reads.

    Neither NaN nor Infinity is among it, and it is ASCII whatever the output's encoding.

    Raises:
        ValueError: a number in it is not finite.
    """
    print(json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=2, allow_nan=False))


def make_readable(stream: TextIO) -> None:
    """Let a stream write what its encoding lacks as plain letters, and never fail at it."""
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error("tonnage.plain", _plain)
        stream.reconfigure(errors="tonnage.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lost), error.end
