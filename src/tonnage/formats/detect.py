"""Whose launch file it is, by its content, and the file as a `Launch`."""

from __future__ import annotations

import dataclasses

from tonnage.arch import catalog
from tonnage.errors import InputError
from tonnage.formats.document import Document
from tonnage.formats.kinds import KINDS, Kind
from tonnage.formats.launch import Launch
from tonnage.formats.model_name import catalog_name
from tonnage.formats.text import read_document


def read_launch(*paths: str, kind: str | None = None, gpus: int | None = None) -> Launch:
    """Read the launch file of another tool, or several that describe one run together.

    A later file's word stands over an earlier's, and the launch's notes say where they differ.
    Nothing in a file is executed.

    Args:
        paths: the files; ``-`` for stdin.
        kind: whose file the first is, one of `KINDS`; None: told by its content, as the kind
            of the others always is.
        gpus: devices that are given beside the files.

    Raises:
        InputError: one cannot be read, is of no known kind or no training launch, a key has no
            value of its type, or the files do not belong together.
    """
    documents = [read_document(path) for path in paths]
    kinds = [_named(kind)] if kind is not None else []
    for path, document in zip(paths[len(kinds) :], documents[len(kinds) :], strict=True):
        kinds.append(detect_kind(document, path))
    if len(documents) > 1:
        return _with_model(_together(documents, kinds, gpus))
    launch = kinds[0].read(documents[0], gpus)
    notes = tuple(note for note in documents[0].notes if note not in launch.notes)
    return _with_model(dataclasses.replace(launch, notes=(*notes, *launch.notes)))


def _with_model(launch: Launch) -> Launch:
    """The launch with the catalog's name of its model, where it has one."""
    if launch.model is None:
        return launch
    name = catalog_name(launch.model)
    if name is None or catalog.find(launch.model) is not None:
        return launch
    note = f"model {launch.model}: read as {name}, whose shape it has"
    return dataclasses.replace(launch, model=name, notes=(*launch.notes, note))


def _together(documents: list[Document], kinds: list[Kind], gpus: int | None) -> Launch:
    """Files that describe one run of the Hugging Face Trainer."""
    from tonnage.formats.hugging_face.part import join

    for document, kind in zip(documents, kinds, strict=True):
        if not kind.joins:
            raise InputError(
                field="config",
                value=document.name,
                problem=f"is a file of {kind.name}, which describes a run alone",
                accepted="several files of " + ", ".join(k.name for k in KINDS.values() if k.joins),
            )
    read = [kind.parts(document) for document, kind in zip(documents, kinds, strict=True)]
    return join([one for parts in read for one in parts], gpus)


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
