"""One file of a run: what it says, what its tool takes for granted, and an account of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.settle import settle
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one file says of a run.

    Attributes:
        kind: whose file it is.
        name: the file's name.
        given: what it says.
        defaults: what its tool does where nothing is said.
        account: its keys by what became of them.
        notes: what was assumed in reading, in sentences.
    """

    kind: str
    name: str
    given: Run
    defaults: Run
    account: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def part(
    kind: str, document: Document, fields: Fields, given: Run, defaults: Run | None = None
) -> Part:
    """A file once its keys are read."""
    return Part(
        kind=kind,
        name=document.name,
        given=given,
        defaults=defaults or Run(),
        account=fields.account(),
        notes=(*document.notes, *fields.notes),
    )


def join(parts: Sequence[Part], gpus: int | None) -> Launch:
    """Several files of one run as one launch; a later file's word stands over an earlier's.

    Args:
        parts: the files in the order in which they are given.
        gpus: devices that are given beside the files.
    """
    run, said, notes = Run(), Run(), []
    for one in parts:
        notes += [note for note in one.notes if note not in notes]
        said, _ = overlay(said, one.defaults)
        run, conflicts = overlay(run, one.given)
        notes += conflicts
    whole, _ = overlay(said, run)
    settled = settle(whole, gpus)

    def fate(name: str) -> tuple[str, ...]:
        named = [(one.name, path) for one in parts for path in one.account[name]]
        return tuple(f"{file}: {path}" if len(parts) > 1 else path for file, path in named)

    return Launch(
        kind=" + ".join(dict.fromkeys(one.kind for one in parts)),
        model=whole.model,
        plan=settled.plan,
        gpus=whole.processes,
        steps=whole.steps,
        notes=(*notes, *settled.notes),
        lacks=settled.lacks,
        used=fate("used"),
        ignored=fate("ignored"),
        not_understood=fate("not_understood"),
    )
