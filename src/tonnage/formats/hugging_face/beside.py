"""A DeepSpeed configuration that another file refers to: beside it, inside it, or by name only.

Tools bring such files themselves (``ds_z3_config.json``, ``zero2.json``), and a launch file
names them by a path that only its author has. Where the file is not there, the ZeRO stage is
read off its name and that is said.
"""

from __future__ import annotations

import os
import re

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Run
from tonnage.formats.hugging_face.trainer import inline_json
from tonnage.formats.hugging_face.words import beside
from tonnage.formats.hugging_face.zero import read_deepspeed
from tonnage.formats.keys import Fields

_STAGE = re.compile(r"z(?:ero)?[-_]?(?:stage)?[-_]?([0-3])(?![0-9])", re.IGNORECASE)


def referred(document: Document, fields: Fields, path: str) -> tuple[Part, ...]:
    """The DeepSpeed configuration of a key, as a part of its own; nothing where there is none.

    Args:
        document: the file.
        fields: its keys.
        path: the key: a file's name, a mapping, or JSON as a text.

    Raises:
        InputError: the file is there and cannot be read, or is no such configuration.
    """
    inside = inline_json(fields, path)
    if inside is None and any(key != path for key in fields.under(path)):
        inside = _mapping(document, path)
        fields.use(f"{path}.*")
    if inside is not None:
        return (_part(Document(name=path, syntax="json", text="", values=inside)),)
    name = fields.word(path)
    if name is None or name.lower() in ("false", "none", ""):
        return ()
    found = beside(document, name) if name.endswith(".json") else None
    if found is not None:
        return (_part(found),)
    stage = _STAGE.search(os.path.basename(name))
    if stage is None:
        fields.note(
            f"{path} names {name}, which is not beside this file: give it as a further --config; "
            "weighed at DeepSpeed's stage 2"
        )
        return (_named(path, 2, ""),)
    fields.note(f"{path} names {name}, which is not beside this file: stage {stage[1]} by its name")
    return (_named(path, int(stage[1]), os.path.basename(name).lower()),)


def _part(document: Document) -> Part:
    fields = Fields(document.values)
    return part("deepspeed", document, fields, read_deepspeed(fields))


def _named(path: str, stage: int, name: str) -> Part:
    """A configuration of which only the name is known."""
    empty: dict[str, tuple[str, ...]] = {"used": (), "ignored": (), "not_understood": ()}
    plan: dict[str, object] = {"zero": stage}
    if "offload" in name and "params" not in name:
        plan["offload_optimizer"] = 1.0
    if "offload" in name and stage == 3:
        plan["offload_parameters"] = True
    given = Run(engine="deepspeed", plan=plan)
    return Part(
        kind="deepspeed",
        name=path,
        given=given,
        defaults=Run(),
        account=empty,
        origins={},
        notes=(),
    )


def _mapping(document: Document, path: str) -> dict[str, object]:
    found: object = document.values
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return dict(found) if isinstance(found, dict) else {}
