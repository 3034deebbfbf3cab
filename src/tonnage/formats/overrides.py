"""Commands of tools whose settings are a YAML file with single keys set over it.

``tune run … --config NAME key=value`` and ``litgpt VERB … --config FILE --key value``: the words
of the command, the file that it names, and the two laid over one another. Nothing is run.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping

from tonnage.errors import InputError
from tonnage.formats.document import Document
from tonnage.formats.hugging_face.words import beside
from tonnage.formats.shell import read_script
from tonnage.formats.yaml_text import parse_yaml


def find_command(document: Document, program: str, *verbs: str) -> tuple[str, ...]:
    """The longest command of a program in a script, from its verb on; empty: there is none.

    Args:
        document: the script.
        program: its name without a folder.
        verbs: what may follow it; none: anything.
    """
    if document.syntax != "shell" or program not in document.text:
        return ()
    try:
        commands = read_script(document.text).commands
    except (ValueError, RecursionError):
        return ()
    found: tuple[str, ...] = ()
    for words in commands:
        for index, word in enumerate(words[:-1]):
            here = os.path.basename(word) == program
            if here and (not verbs or words[index + 1] in verbs):
                found = max(found, tuple(words[index + 1 :]), key=len)
                break
    return found


def named_file(document: Document, name: str) -> Document:
    """The file of settings that a command names.

    Raises:
        InputError: it does not lie beside the script.
    """
    found = beside(document, name)
    if found is None:
        raise InputError(
            field="config",
            value=document.name,
            problem=f"names the settings {name}, which are not beside it",
            accepted="a script with that file in its folder, or the file itself",
        )
    return found


def lay_over(document: Document, settings: Mapping[str, object], name: str) -> Document:
    """Settings with single keys set over them, as a file.

    Args:
        document: the script, whose name and folder stay.
        settings: values by dotted paths; text is read as YAML does.
        name: of the file below; empty: there is none.
    """
    values: Mapping[str, object] = named_file(document, name).values if name else {}
    for path, value in settings.items():
        values = _set(values, path.split("."), _plain(value))
    return dataclasses.replace(document, syntax="yaml", text="", values=values)


def read_pairs(words: Iterable[str]) -> dict[str, object]:
    """Overrides as ``key=value``; other words are none."""
    pairs = (word.partition("=") for word in words if "=" in word and not word.startswith("-"))
    return {key.lstrip("+"): value for key, _, value in pairs}


def _set(values: Mapping[str, object], path: list[str], value: object) -> dict[str, object]:
    """A mapping in which a path leads to a value."""
    inner = values.get(path[0])
    if len(path) > 1:
        value = _set(inner if isinstance(inner, Mapping) else {}, path[1:], value)
    return {**values, path[0]: value}


def _plain(value: object) -> object:
    """A text as YAML reads it; what YAML does not read stays text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_yaml(value)[0]
    except ValueError:
        return value
