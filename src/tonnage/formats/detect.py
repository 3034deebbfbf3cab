"""Whose launch file it is, by its content, and the file as a `Launch`."""

from __future__ import annotations

import dataclasses

from tonnage.errors import InputError
from tonnage.formats.document import Document
from tonnage.formats.kinds import KINDS, Kind
from tonnage.formats.launch import Launch
from tonnage.formats.text import read_document


def read_launch(path: str, kind: str | None = None) -> Launch:
    """Read a launch file of another tool. Nothing in it is executed.

    Args:
        path: the file; ``-`` for stdin.
        kind: whose file it is, one of `KINDS`; None: told by its content.

    Raises:
        InputError: it cannot be read, is of no known kind or no training launch, or a key
            has no value of its type.
    """
    document = read_document(path)
    chosen = _named(kind) if kind is not None else detect_kind(document, path)
    launch = chosen.read(document)
    return dataclasses.replace(launch, notes=(*document.notes, *launch.notes))


def detect_kind(document: Document, shown: str) -> Kind:
    """The first kind whose marks the content bears.

    Args:
        document: the file.
        shown: what errors call it.

    Raises:
        InputError: it bears those of none.
    """
    for kind in KINDS.values():
        if kind.detect(document):
            return kind
    raise InputError(
        field="config",
        value=shown,
        problem="is no training launch of a kind that is known",
        accepted=", ".join(KINDS),
        hint="--config-kind names the kind of a file that is not recognised",
    )


def _named(name: str) -> Kind:
    key = name.strip().lower().replace("_", "-")
    if key in KINDS:
        return KINDS[key]
    raise InputError(
        field="config_kind",
        value=name,
        problem="is not a kind of launch file",
        accepted=", ".join(KINDS),
    )
