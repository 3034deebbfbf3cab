"""Bytes of a launch file -> `Document`: bounded, loaded safely, never executed."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from tonnage.errors import InputError
from tonnage.files import UnreadableError, parse_json, read_bounded
from tonnage.formats.document import Document, Syntax
from tonnage.formats.yaml_text import parse_yaml, resolve_references

LARGEST_FILE = 2**20
LARGEST_TOML = 64 * 2**10
LONGEST_TOML_KEY = 2_000
"""The parser of TOML takes the square of a long dotted key: this bounds it."""

ACCEPTED = "a launch file: YAML, JSON, TOML, a shell script or a list of arguments"
_SUFFIXES: dict[str, Syntax] = {
    ".json": "json",
    ".jsonc": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".sh": "shell",
    ".bash": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".py": "python",
}
_OPTION = re.compile(r"(?:^|[\s\"'(\[])--[a-z][\w-]+", re.IGNORECASE)


def read_document(path: str) -> Document:
    """Read and parse a file.

    Args:
        path: the file; ``-`` for stdin.

    Raises:
        InputError: it cannot be read, or is in no syntax that is known.
    """
    try:
        content = read_bounded(path, LARGEST_FILE)
    except UnreadableError as error:
        raise refuse(path, str(error)) from None
    if len(content) > LARGEST_FILE:
        raise refuse(path, "is too large for a launch file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refuse(path, "is not UTF-8 text") from None
    document = parse_document(os.path.basename(path), text, shown=path)
    folder = None if path == "-" else os.path.dirname(path) or os.curdir
    return dataclasses.replace(document, folder=folder)


def parse_document(name: str, text: str, *, shown: str | None = None) -> Document:
    """Parse a text by the end of its name, or by what it looks like.

    Args:
        name: the file's name.
        text: its content.
        shown: what errors call it.

    Raises:
        InputError: it is in no syntax that is known.
    """
    syntax = _SUFFIXES.get(os.path.splitext(name)[1].lower()) or _sniff(text)
    if syntax in ("shell", "python"):
        return Document(name=name, syntax=syntax, text=text)
    try:
        values, notes = _PARSERS[syntax](text)
    except RecursionError:
        raise refuse(shown or name, "is nested too deeply") from None
    except ValueError as error:
        raise refuse(shown or name, _clause(error, syntax)) from None
    if isinstance(values, list) and values and all(isinstance(word, str) for word in values):
        return Document(name=name, syntax="shell", text=_as_words(values))
    if not isinstance(values, Mapping):
        if _OPTION.search(text):
            return Document(name=name, syntax="shell", text=text)
        raise refuse(shown or name, "holds no keys")
    values = resolve_references(values) if syntax == "yaml" else values
    return Document(name=name, syntax=syntax, text=text, values=values, notes=notes)


def refuse(path: str, problem: str) -> InputError:
    """The error of a file that is no launch file."""
    return InputError(field="config", value=path, problem=problem, accepted=ACCEPTED)


def _sniff(text: str) -> Syntax:
    """The syntax of a text whose name says nothing."""
    start = text.lstrip()
    if start.startswith("#!") or start.startswith("--"):
        return "python" if "python" in start.splitlines()[0] else "shell"
    for syntax in ("json", "toml", "yaml"):
        try:
            values, _ = _PARSERS[syntax](text)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, Mapping | list):
            return syntax
    return "shell" if _OPTION.search(text) else "yaml"


def _parse_json(text: str) -> tuple[Any, tuple[str, ...]]:
    return parse_json(text), ()


def _parse_toml(text: str) -> tuple[Any, tuple[str, ...]]:
    longest = max((len(line) for line in text.splitlines()), default=0)
    if len(text) > LARGEST_TOML or longest > LONGEST_TOML_KEY:
        raise UnreadableError("is too large for a launch file")
    return tomllib.loads(text), ()


_PARSERS: dict[str, Callable[[str], tuple[Any, tuple[str, ...]]]] = {
    "json": _parse_json,
    "toml": _parse_toml,
    "yaml": parse_yaml,
}


def _clause(error: ValueError, syntax: str) -> str:
    if isinstance(error, UnreadableError):
        return str(error)
    return f"is not {syntax.upper()}: {(str(error).splitlines() or [''])[0][:80]}"


def _as_words(words: list[str]) -> str:
    from shlex import quote

    return " ".join(quote(word) for word in words)
